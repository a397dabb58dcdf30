// When the clock has to be looked at again: the earliest of all deadlines that were set since it last rang. One may
// have become void by then; it rings for nothing and is set anew.
#pragma once

#include "base/clock.h"

#include <algorithm>
#include <cstdint>

namespace kvf {

class Alarm {
  public:
    void by(uint64_t deadline) { due_ = std::min(due_, deadline); }
    uint64_t due() const { return due_; }

    // Whether it is time; then everybody sets their deadlines anew.
    bool rings(uint64_t now) {
        if (now < due_)
            return false;
        due_ = kNever;
        return true;
    }

  private:
    uint64_t due_ = kNever;
};

} // namespace kvf
