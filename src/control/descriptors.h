// Which descriptors a thread has open, in a form that a forked child can read in whatever state it caught that thread:
// no lock, no list, a bit for each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace kvf {

class Descriptors {
  public:
    // For as many as this process may open now.
    Descriptors();

    // Before it can be of use, and before it is closed. A number beyond those foreseen is not kept.
    void add(int fd);
    void remove(int fd);

    // In a child after fork: closes the child's copies and nothing else. What else belongs to them, an epoll set for
    // one, is shared with the parent.
    void close_all();

  private:
    static constexpr size_t kBits = 64;

    const size_t words_;
    const std::unique_ptr<std::atomic<uint64_t>[]> open_;
};

} // namespace kvf
