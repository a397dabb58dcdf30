// The engine's events: slots of rooms whose word changed, each at most once in the queue, so that it never overflows. A
// descriptor is readable while some wait.
#pragma once

#include "base/status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace kvf {

class EventQueue {
  public:
    static Status create(uint32_t slots, std::unique_ptr<EventQueue> *out);
    ~EventQueue();
    EventQueue(const EventQueue &) = delete;
    EventQueue &operator=(const EventQueue &) = delete;

    // Shards. The slot's word has been written before.
    void push(uint32_t slot);

    // Any thread: the next slot, whose word is to be read afterwards. False when there is none. Between begin() and
    // end().
    bool pop(uint32_t *slot);
    // One caller at a time takes events. end() leaves the descriptor readable when some are left.
    void begin();
    void end();

    int descriptor() const { return descriptor_; }

  private:
    struct Cell {
        std::atomic<uint64_t> turn; // == position: free for that push; == position + 1: filled
        uint32_t slot = 0;
    };

    EventQueue(uint32_t slots, int descriptor);
    void signal();
    void clear();
    bool empty() const;

    const uint64_t mask_;
    const int descriptor_; // an eventfd
    std::unique_ptr<Cell[]> cells_;
    std::unique_ptr<std::atomic<uint8_t>[]> pending_; // by slot: it is in the queue
    alignas(64) std::atomic<uint64_t> tail_{0};       // next position to push to
    alignas(64) std::atomic<uint64_t> head_{0};       // next position to pop from; written under the mutex
    std::atomic<bool> armed_{true};                   // the descriptor has to be signalled for the next push
    std::mutex taking_;
};

} // namespace kvf
