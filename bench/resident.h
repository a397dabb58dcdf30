// The memory that a process has beyond its pools, watched while it works.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace bench {

// What is resident and not shared memory, in bytes. Pools are shared memory, whoever made them.
uint64_t resident_bytes();

// What the machine can still give, in bytes.
uint64_t available_bytes();

// Looks at it from a thread of its own, from when it is made to stop().
class ResidentWatch {
  public:
    ResidentWatch();
    ResidentWatch(const ResidentWatch &) = delete;
    ResidentWatch &operator=(const ResidentWatch &) = delete;
    ~ResidentWatch() { stop(); }

    void stop();
    uint64_t before() const { return before_; }
    uint64_t peak() const { return peak_; }

  private:
    uint64_t before_;
    std::atomic<uint64_t> peak_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

} // namespace bench
