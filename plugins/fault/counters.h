// What was made to go wrong, counted.
#pragma once

#include <kvferry/plugin.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fault {

enum class Count : size_t { failed, withheld, truncated, full, held, connects, imports, registrations };

class Counters {
  public:
    void add(Count which) { values_[static_cast<size_t>(which)].fetch_add(1, std::memory_order_relaxed); }

    // As kvf_transport_ops::counters.
    int list(kvf_counter *counters, size_t capacity) const;

  private:
    std::array<std::atomic<uint64_t>, 8> values_{};
};

} // namespace fault
