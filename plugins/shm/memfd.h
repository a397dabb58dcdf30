// Memfds: what makes one safe to map, how to get at a peer's, and the mapping.
#pragma once

#include "counters.h"
#include "process.h"

#include <cstdint>

namespace shm {

struct FileId {
    uint64_t device = 0;
    uint64_t inode = 0;

    friend bool operator==(const FileId &, const FileId &) = default;
};

// Checks that no access to a mapping of the file can ever raise SIGBUS: it is an ordinary memfd whose size is sealed
// against shrinking.
Status inspect_memfd(int fd, FileId &id, uint64_t &size);

// Opens the descriptor number fd of the peer's process, if it is this very file. The number comes from the peer, so
// it may be anything: KVF_ERR_PROTOCOL. KVF_ERR_PERMISSION when the kernel keeps us out.
Status open_memfd_of(const Process &process, int fd, const FileId &id, Fd &memfd);

// A part of a peer's memfd, mapped shared: any number of regions may lie in it.
class Mapping {
  public:
    // protection: PROT_… ; gauge: counts the bytes mapped, or NULL.
    Mapping(int protection, Counter *gauge) : protection_(protection), gauge_(gauge) {}
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping() { unmap(); }

    // A descriptor of ours, which it does not keep; begin is a multiple of the page.
    Status map(int memfd, uint64_t begin, uint64_t size);
    void unmap();

    // NULL when it is not mapped (any more).
    char *data() const { return data_; }

  private:
    int protection_;
    Counter *gauge_;
    char *data_ = nullptr;
    uint64_t size_ = 0;
    pid_t owner_ = 0;
};

} // namespace shm
