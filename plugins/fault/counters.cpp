// The counters' names, in the order of Count.
#include "counters.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace fault {
namespace {

constexpr const char *kNames[] = {
    "fault_failed", "fault_withheld", "fault_truncated", "fault_full",
    "fault_held",   "fault_connects", "fault_imports",   "fault_registrations",
};

} // namespace

int Counters::list(kvf_counter *counters, size_t capacity) const {
    static_assert(std::size(kNames) == std::tuple_size_v<decltype(values_)>);
    for (size_t i = 0; i < std::min(capacity, values_.size()); ++i)
        counters[i] = {kNames[i], values_[i].load(std::memory_order_relaxed)};
    return static_cast<int>(values_.size());
}

} // namespace fault
