// Memfds: what makes one safe to map, how to get at a peer's, and the mapping.
#pragma once

#include "counters.h"
#include "process.h"

#include <cstdint>

namespace shm {

struct FileId {
    uint64_t device = 0;
    uint64_t inode = 0;
};

// Checks that no access to a mapping of the file can ever raise SIGBUS: it is an ordinary memfd whose size is sealed
// against shrinking.
Status inspect_memfd(int fd, FileId &id, uint64_t &size);

// Opens the descriptor number fd of the peer's process, if it is this very file. The number comes from the peer, so
// it may be anything: KVF_ERR_PROTOCOL. KVF_ERR_PERMISSION when the kernel keeps us out.
Status open_memfd_of(const Process &process, int fd, const FileId &id, Fd &memfd);

// A memfd of a peer, mapped whole and shared: any number of regions may lie in it.
class Mapping {
  public:
    // protection: PROT_… ; gauge: counts the bytes mapped, or NULL.
    Mapping(const FileId &id, int protection, Counter *gauge) : id_(id), protection_(protection), gauge_(gauge) {}
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping() { unmap(); }

    // fd is the number that the memfd has in the peer's process.
    Status map(const Process &process, int fd);
    void unmap();

    bool is(const FileId &id) const { return id.device == id_.device && id.inode == id_.inode; }
    uint64_t size() const { return size_; }
    // NULL when it is not mapped (any more).
    char *data() const { return data_; }

  private:
    FileId id_;
    int protection_;
    Counter *gauge_;
    char *data_ = nullptr;
    uint64_t size_ = 0;
    pid_t owner_ = 0;
};

} // namespace shm
