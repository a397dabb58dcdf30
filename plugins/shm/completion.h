// How operations ended, until the host polls. Nothing here allocates: an operation that has begun must end in a
// completion, whatever is short.
#pragma once

#include <kvferry/plugin.h>

#include <array>

namespace shm {

class Completion {
  public:
    void begin(uint64_t token);
    void moved(uint64_t bytes) { bytes_ += bytes; }
    // Worded as printf does. The first failure stays.
    [[gnu::format(printf, 3, 4)]] void fail(int32_t status, const char *format, ...);

    bool ok() const { return status_ == KVF_OK; }
    uint64_t bytes() const { return bytes_; }
    kvf_completion report() const;

  private:
    uint64_t token_ = 0;
    uint64_t bytes_ = 0;
    int32_t status_ = KVF_OK;
    std::array<char, 256> message_{};
};

// A ring. What pop gave stays in its place until push comes round to it, which needs a call of the lane that ends the
// life of its message anyway.
class CompletionQueue {
  public:
    bool full() const { return pushed_ - popped_ == ring_.size(); }
    bool empty() const { return pushed_ == popped_; }
    Completion &push() { return ring_[pushed_++ % ring_.size()]; }
    const Completion &pop() { return ring_[popped_++ % ring_.size()]; }

  private:
    std::array<Completion, 128> ring_;
    uint64_t pushed_ = 0;
    uint64_t popped_ = 0;
};

} // namespace shm
