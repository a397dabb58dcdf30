// What an instance tells its peers in bytes: its address, and a key for each region. Both ends run on one host, so the
// fields stand as the machine has them. Blobs from a peer may hold anything; decode checks form, and the one who uses a
// field checks its meaning.
#pragma once

#include "cookie.h"
#include "process.h"

#include <cstddef>

namespace shm {

struct BlobHeader {
    uint32_t magic;
    uint16_t version;
    uint16_t size;
};

struct Address {
    static constexpr uint32_t kMagic = 0x4153464b; // "KFSA"
    static constexpr uint16_t kVersion = 1;
    static constexpr const char *kName = "address";

    BlobHeader header;
    BootId boot_id;
    uint64_t pid_namespace;
    uint64_t start_time;
    int32_t pid;
    int32_t cookie_fd;
    Nonce nonce;
    uint64_t cookie_address;
    FileId cookie_file;
};
static_assert(sizeof(Address) == 88, "no padding, which would carry what lay there before");

struct Key {
    static constexpr uint32_t kMagic = 0x4b53464b; // "KFSK"
    static constexpr uint16_t kVersion = 1;
    static constexpr const char *kName = "key";

    BlobHeader header;
    Nonce nonce; // of the instance that the region is of
    uint64_t base;
    uint64_t length;
    FileId file; // of the memfd, and the offset of base in it; zero without one
    uint64_t fd_offset;
    int32_t fd; // -1: no memfd
    uint32_t reserved;
};
static_assert(sizeof(Key) == 72, "no padding, which would carry what lay there before");

// Fill and read blobs as the comment on blobs in plugin.h says.
Status encode(Address address, void *blob, size_t *size);
Status encode(Key key, void *blob, size_t *size);
Status decode(const void *blob, size_t size, Address &address);
Status decode(const void *blob, size_t size, Key &key);

} // namespace shm
