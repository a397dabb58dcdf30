// The monotonic clock, in nanoseconds. What decides takes its time as an argument; only the shells read this.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvf {

constexpr uint64_t kNanosPerMilli = 1'000'000;
constexpr uint64_t kNever = UINT64_MAX;

// How long a thread that has just worked looks for more before it sleeps, giving way to others meanwhile. A room's life
// is a chain of messages between threads; waking a sleeper, and the processor under it, costs several times the work.
constexpr uint64_t kLingerNs = 50'000;

inline uint64_t monotonic_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

} // namespace kvf
