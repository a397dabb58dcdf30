// Numbers that are handed out and come back, the lowest so far unused only when none has come back.
#pragma once

#include <cstdint>
#include <vector>

namespace shm {

class Slots {
  public:
    explicit Slots(uint32_t most) : most_(most) {}

    // False when all are out.
    bool take(uint32_t &slot) {
        if (free_.empty() && used_ == most_)
            return false;
        if (free_.empty()) {
            slot = used_++;
        } else {
            slot = free_.back();
            free_.pop_back();
        }
        return true;
    }
    void give_back(uint32_t slot) { free_.push_back(slot); }

    // How many have ever been out.
    uint32_t used() const { return used_; }

  private:
    const uint32_t most_;
    uint32_t used_ = 0;
    std::vector<uint32_t> free_;
};

} // namespace shm
