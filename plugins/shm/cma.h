// Cross-memory attach: copies to or from a peer's memory by system call, many pieces in one.
#pragma once

#include "completion.h"
#include "peer.h"

#include <sys/uio.h>

namespace shm {

// Reading from the peer or writing to it: process_vm_readv or process_vm_writev.
class CmaBatch {
  public:
    // What one call may carry: the kernel's IOV_MAX pieces, and no more bytes than a fence is willing to wait for.
    static constexpr size_t kPieces = 1024;
    static constexpr uint64_t kBytes = 4 << 20;

    bool empty() const { return count_ == 0; }
    bool full() const { return count_ == kPieces || bytes_ == kBytes; }
    void clear();

    // Takes as much of the piece as there is room for, and returns that. Not when full.
    uint64_t add(char *local, uint64_t remote, uint64_t length);

    // Moves what was added, all or up to the first failure, and is empty again.
    void run(uint32_t op, kvf_peer &peer, Completion &completion);

  private:
    size_t advance(size_t first, uint64_t moved);
    void word_failure(const char *call, int error, size_t first, kvf_peer &peer, Completion &completion) const;

    std::array<iovec, kPieces> local_;
    std::array<iovec, kPieces> remote_;
    size_t count_ = 0;
    uint64_t bytes_ = 0;
};

} // namespace shm
