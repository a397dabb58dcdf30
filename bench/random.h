// Numbers that look random and are the same for the same seed in every process (SplitMix64).
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace bench {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

inline uint64_t mix(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() { return mix(state_ += kGolden); }
    // Below bound, which is far below 2^64.
    uint64_t below(uint64_t bound) { return next() % bound; }

  private:
    uint64_t state_;
};

// 0 ... count - 1.
inline std::vector<uint32_t> counted(uint32_t count) {
    std::vector<uint32_t> out(count);
    std::iota(out.begin(), out.end(), 0);
    return out;
}

// The same in an order that the seed decides.
inline std::vector<uint32_t> shuffled(uint32_t count, uint64_t seed) {
    std::vector<uint32_t> out = counted(count);
    Random random(seed);
    for (uint32_t left = count; left > 1; --left)
        std::swap(out[left - 1], out[random.below(left)]);
    return out;
}

} // namespace bench
