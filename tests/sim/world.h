// The simulated world: a clock, things that will happen, chance from one seed, a trace, and what was found wrong. One
// thread; the same seed gives the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <vector>

namespace kvf::sim {

constexpr uint64_t kMicro = 1'000;
constexpr uint64_t kMilli = 1'000'000;
constexpr uint64_t kSecond = 1'000'000'000;

// xoshiro256**, seeded by splitmix64 (Blackman and Vigna).
class Random {
  public:
    explicit Random(uint64_t seed);
    uint64_t next();
    uint64_t below(uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
    uint64_t between(uint64_t least, uint64_t most) { return least + below(most - least + 1); }
    bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }

  private:
    uint64_t state_[4];
};

class World {
  public:
    World(uint64_t seed, bool traced) : random(seed), traced_(traced) {}

    uint64_t now() const { return now_; }
    void at(uint64_t time, std::function<void()> happen);
    void after(uint64_t delay, std::function<void()> happen) { at(now_ + delay, std::move(happen)); }

    // Forgets what was to happen.
    void clear() { events_ = {}; }

    // Lets the next thing happen; false when nothing will.
    bool step();
    // Called after every step.
    std::function<void()> check;

    [[gnu::format(printf, 2, 3)]] void trace(const char *format, ...);
    [[gnu::format(printf, 2, 3)]] void violation(const char *format, ...);
    bool traced() const { return traced_; }
    uint64_t violations() const { return violations_; }
    const std::string &first_violation() const { return first_violation_; }

    Random random;

  private:
    struct Event {
        uint64_t time;
        uint64_t order;
        std::function<void()> happen;
    };
    struct Later {
        bool operator()(const Event &a, const Event &b) const {
            return a.time != b.time ? a.time > b.time : a.order > b.order;
        }
    };

    const bool traced_;
    uint64_t now_ = kSecond;
    uint64_t order_ = 0;
    uint64_t violations_ = 0;
    std::string first_violation_;
    std::priority_queue<Event, std::vector<Event>, Later> events_;
};

} // namespace kvf::sim
