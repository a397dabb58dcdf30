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

struct ShmPlan {
    bool own_memory = false;                                                // the caller's, else the library's
    size_t pool_bytes = 0;                                                  // of each group
    std::vector<size_t> page_bytes = {4 << 10, 1 << 20, 4 << 20, 16 << 20}; // by group

    // As the other process is told.
    std::string words() const { return join({own_memory ? 1u : 0u, pool_bytes}); }
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
