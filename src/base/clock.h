// The monotonic clock, in nanoseconds. What decides takes its time as an argument; only the shells read this.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvf {

constexpr uint64_t kNanosPerMilli = 1'000'000;
constexpr uint64_t kNever = UINT64_MAX;

inline uint64_t monotonic_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

} // namespace kvf
