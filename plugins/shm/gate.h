// What stands between lanes and a peer: once it is shut no copy is going on and none will begin.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace shm {

class Gate {
  public:
    // False once it is shut. Else leave must follow.
    bool enter() {
        // Sequentially consistent, as are the accesses in shut: of a lane that enters and a fence that shuts, at least
        // one sees the other.
        inside_.fetch_add(1, std::memory_order_seq_cst);
        if (!shut_.load(std::memory_order_seq_cst))
            return true;
        leave();
        return false;
    }
    void leave() { inside_.fetch_sub(1, std::memory_order_release); }

    // Those inside ask between two steps of a copy, so that shut need not wait for the whole of it.
    bool is_shut() const { return shut_.load(std::memory_order_relaxed); }

    // Returns when nobody is inside any more: as long as one step of a copy takes.
    void shut() {
        shut_.store(true, std::memory_order_seq_cst);
        while (inside_.load(std::memory_order_seq_cst) != 0)
            sched_yield();
    }

  private:
    // Lanes of several threads write it at each post.
    alignas(64) std::atomic<uint32_t> inside_{0};
    std::atomic<bool> shut_{false};
};

class Passage {
  public:
    explicit Passage(Gate &gate) : gate_(gate), inside_(gate.enter()) {}
    Passage(const Passage &) = delete;
    Passage &operator=(const Passage &) = delete;
    ~Passage() {
        if (inside_)
            gate_.leave();
    }
    explicit operator bool() const { return inside_; }

  private:
    Gate &gate_;
    bool inside_;
};

} // namespace shm
