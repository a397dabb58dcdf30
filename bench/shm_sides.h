// What both sides of the benchmark of shm have: an engine with a group of pages for each size, in pools of the same
// memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine.h"
#include "second_process.h"
#include "shared_pool.h"

namespace bench {

// Whose the pools are: the library's, which the other process maps, or the caller's, in small or huge pages.
enum class PoolMemory { mapped, own_small, own_huge };

struct ShmPlan {
    PoolMemory memory = PoolMemory::mapped;
    size_t pool_bytes = 0;                                                  // of each group
    std::vector<size_t> page_bytes = {4 << 10, 1 << 20, 4 << 20, 16 << 20}; // by group

    bool own() const { return memory != PoolMemory::mapped; }
    KernelPages kernel_pages() const { return memory == PoolMemory::own_huge ? KernelPages::huge : KernelPages::small; }

    // As the other process is told.
    std::string words() const { return join({static_cast<uint64_t>(memory), pool_bytes}); }
};

class ShmSide {
  public:
    ShmSide(const ShmPlan &plan, uint32_t role);

    Engine &engine() { return engine_; }
    char *pool(size_t group) const { return pools_.at(group); }
    // All pages of the group, scattered; another order on each side.
    const std::vector<uint32_t> &pages(size_t group) const { return pages_.at(group); }

  private:
    std::vector<std::unique_ptr<OwnPool>> own_; // outlive the engine
    Engine engine_;
    std::vector<char *> pools_;
    std::vector<std::vector<uint32_t>> pages_;
};

} // namespace bench
