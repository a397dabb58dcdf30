// What the engine has registered: checks new tensors, lays them into regions of memory, and makes the next version of
// the layout. Callers' threads look up the limits of a group without a lock.
#pragma once

#include "engine/memory_pools.h"
#include "room/layout.h"

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace kvf {

// How far page indices of a group may go, the tensor that says so, and the layers that have tensors of it.
struct GroupLimit {
    uint32_t group = 0;
    uint64_t pages = 0;
    TensorName smallest;
    std::vector<uint32_t> layers; // sorted

    // Whether a layer of [begin, begin + count) is there; a count of 0 is all.
    bool has_layer(uint32_t begin, uint32_t count) const;
};

struct GroupLimits {
    std::vector<GroupLimit> groups; // sorted

    const GroupLimit *find(uint32_t group) const;
};

class Registrations {
  public:
    explicit Registrations(const MemoryPools &pools) : pools_(pools), layout_(std::make_shared<Layout>()) {}

    // The layout with the tensors added, or why not. Nothing changes before adopt().
    Status add(std::span<const kvf_tensor> tensors, std::shared_ptr<const Layout> *next) const;
    void adopt(std::shared_ptr<const Layout> layout);

    const std::shared_ptr<const Layout> &layout() const { return layout_; }
    // Whether a tensor lies in [base, base + length).
    bool uses(const void *base, uint64_t length) const;

    // Any thread, while others change the rest. Null before the first adopt(); lives as long as the registrations.
    const GroupLimits *limits() const { return limits_.load(std::memory_order_acquire); }

  private:
    const MemoryPools &pools_;
    std::shared_ptr<const Layout> layout_;
    std::vector<std::unique_ptr<const GroupLimits>> all_limits_; // kept: callers may be reading an older one
    std::atomic<const GroupLimits *> limits_{nullptr};
};

} // namespace kvf
