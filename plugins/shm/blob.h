// What an instance tells its peers in bytes: its address, a greeting for each peer, and a key for each region. What a
// blob says of a process counts only as far as that process's cookie says the same. Both ends run on one host, so the
// fields stand as the machine has them. Blobs from a peer may hold anything; decode checks form, and the one who uses a
// field checks its meaning.
#pragma once

#include "cookie_file.h"
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
    static constexpr uint16_t kVersion = 2;
    static constexpr const char *kName = "address";

    BlobHeader header;
    BootId boot_id;
    uint64_t pid_namespace;
    uint64_t start_time;
    int32_t pid;
    int32_t cookie_fd;
    Nonce nonce;
    uint64_t instance_id; // of the engine
    FileId cookie_file;
};
static_assert(sizeof(Address) == 88, "no padding, which would carry what lay there before");

// To one peer: what it is to put into its cookie, and where in ours it finds what it gave us.
struct Greeting {
    static constexpr uint32_t kMagic = 0x4753464b; // "KFSG"
    static constexpr uint16_t kVersion = 1;
    static constexpr const char *kName = "greeting";

    BlobHeader header;
    Nonce challenge;
    uint64_t answer_slot;
};
static_assert(sizeof(Greeting) == 32, "no padding");

// Where in the instance's cookie the region stands: no address, so there is none to forge.
struct Key {
    static constexpr uint32_t kMagic = 0x4b53464b; // "KFSK"
    static constexpr uint16_t kVersion = 2;
    static constexpr const char *kName = "key";

    BlobHeader header;
    Nonce nonce; // of the instance that the region is of
    uint64_t slot;
    uint64_t serial;
};
static_assert(sizeof(Key) == 40, "no padding");

// Fill and read blobs as the comment on blobs in plugin.h says.
Status encode(Address address, void *blob, size_t *size);
Status encode(Greeting greeting, void *blob, size_t *size);
Status encode(Key key, void *blob, size_t *size);
Status decode(const void *blob, size_t size, Address &address);
Status decode(const void *blob, size_t size, Greeting &greeting);
Status decode(const void *blob, size_t size, Key &key);

} // namespace shm
