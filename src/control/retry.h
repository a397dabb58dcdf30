// How long to wait before the next try: 250 ms at first, then twice as long each time up to a most.
#pragma once

#include "base/clock.h"

#include <algorithm>
#include <cstdint>

namespace kvf {

class Retry {
  public:
    explicit Retry(uint64_t first_ns = 250 * kNanosPerMilli, uint64_t most_ns = 2000 * kNanosPerMilli)
        : first_(first_ns), most_(most_ns), next_(first_ns) {}

    uint64_t pause() {
        const uint64_t pause = next_;
        next_ = std::min(2 * next_, most_);
        return pause;
    }

    void reset() { next_ = first_; }

  private:
    uint64_t first_, most_, next_;
};

} // namespace kvf
