// The descriptor of a lane: readable when the inner lane's is, when a held operation falls due, and when another thread
// fenced a peer.
#pragma once

#include <cstdint>

namespace fault {

class Wake {
  public:
    Wake() = default;
    ~Wake();
    Wake(const Wake &) = delete;
    Wake &operator=(const Wake &) = delete;

    // KVF_ERR_SYSTEM; the sentence is told.
    int open(int inner_fd);

    int fd() const { return epoll_; } // -1 until open
    void at(uint64_t due_ns);         // CLOCK_MONOTONIC; UINT64_MAX: not by time
    void notify();                    // any thread
    void drain();                     // forgets what timer and notify had to say

  private:
    int epoll_ = -1;
    int timer_ = -1;
    int event_ = -1;
};

// CLOCK_MONOTONIC.
uint64_t now_ns();

} // namespace fault
