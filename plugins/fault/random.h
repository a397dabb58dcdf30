// The generator that every decision comes from: splitmix64, so that a seed and a sequence of calls give one outcome.
#pragma once

#include <cstdint>

namespace fault {

class Random {
  public:
    // Streams of one seed are independent of each other; a lane's is its shard.
    Random(uint64_t seed, uint64_t stream) : state_(seed) { state_ = next() ^ (stream * 0xd1342543de82ef95U); }

    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }

    // Both included. The slight preference for small values does not matter here.
    uint64_t between(uint64_t least, uint64_t most) { return least + next() % (most - least + 1); }

    bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }

  private:
    uint64_t state_;
};

} // namespace fault
