// What an instance counts. Written by lanes, read by any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace shm {

using Counter = std::atomic<uint64_t>;

struct Counters {
    Counter map_bytes{0};         // copied through mappings
    Counter cma_bytes{0};         // copied by cross-memory attach
    Counter operations{0};        // completed, with whatever outcome
    Counter failures{0};          // completed with another outcome than KVF_OK
    Counter open_mapped_bytes{0}; // of peers' memfds
};

// The counters order nothing, they only must not lose a count.
inline void add(Counter &counter, uint64_t value) {
    counter.fetch_add(value, std::memory_order_relaxed);
}
inline void subtract(Counter &counter, uint64_t value) {
    counter.fetch_sub(value, std::memory_order_relaxed);
}

} // namespace shm
