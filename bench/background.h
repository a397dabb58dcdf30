// A load that keeps the shards of an engine copying: rooms of many large pages, again and again, from a thread of its
// own.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "engine.h"

namespace bench {

class Background {
  public:
    // pages: of 1 MiB, on each side.
    Background(Engine &prefill, Engine &decode, uint32_t pages) : prefill_(prefill), decode_(decode), pages_(pages) {}
    Background(const Background &) = delete;
    Background &operator=(const Background &) = delete;
    ~Background();

    // What either engine registers, in a group of its own.
    kvf_tensor tensor_of(Engine &engine) const;

    // Returns once rooms are copied.
    void start();
    // GB a second that were copied meanwhile. Throws what went wrong on the thread.
    double stop();

  private:
    struct Pair {
        kvf_room sender{}, receiver{};
    };

    void run();
    Pair begin(uint64_t id);
    void end(const Pair &pair);

    Engine &prefill_;
    Engine &decode_;
    uint32_t pages_;
    std::vector<uint32_t> list_;
    std::thread thread_;
    std::atomic<bool> stop_{false};
    std::atomic<uint64_t> rooms_done_{0};
    uint64_t began_ns_ = 0;
    std::string failure_; // of the thread, once it has ended
    std::atomic<bool> failed_{false};
};

} // namespace bench
