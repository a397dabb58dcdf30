// Random numbers that depend on their seed alone: the distributions of <random> differ between C++ libraries.
#pragma once

#include <cstdint>
#include <random>

namespace llama {

using Random = std::mt19937_64;

// In [0, bound). The bias is bound / 2^64.
inline uint32_t below(Random &random, uint32_t bound) {
    return static_cast<uint32_t>(random() % bound);
}

} // namespace llama
