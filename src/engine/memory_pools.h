// Memory that kvf_memory_alloc gave out: each piece is a memfd of its own, sealed against shrinking, so that a peer
// which maps it can never fault.
#pragma once

#include "base/status.h"
#include "room/messages.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace kvf {

class MemoryPools {
  public:
    struct Pool {
        uint8_t *base = nullptr;
        uint64_t length = 0;
        int fd = -1; // owned by the pools
    };

    MemoryPools() = default;
    ~MemoryPools();
    MemoryPools(const MemoryPools &) = delete;
    MemoryPools &operator=(const MemoryPools &) = delete;

    Status allocate(size_t bytes, void **memory);
    // KVF_ERR_INVALID: not the beginning of a pool.
    Status release(void *memory);
    // The pool that holds the whole range.
    // Whether any of these bytes is in a pool.
    bool touches(const void *base, uint64_t length) const;
    std::optional<Pool> find(const void *base, uint64_t length) const;

  private:
    struct Entry {
        uint64_t length = 0;
        OwnedFd fd;
    };

    mutable std::mutex mutex_;
    std::map<uint8_t *, Entry> pools_; // by base
};

} // namespace kvf
