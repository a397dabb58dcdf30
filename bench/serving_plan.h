// What both sides of the benchmark of serving know: how the pools are cut, which room has which pages, and what each
// page must hold. All of it follows from a few numbers that the second process is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine.h"

namespace bench {

// DeepSeek-R1's latent cache: 512 + 64 numbers of a byte for each token and layer.
constexpr uint32_t kTokenBytes = 576;
constexpr uint32_t kPageTokens = 64;
constexpr size_t kPageBytes = size_t{kTokenBytes} * kPageTokens;

struct ServingPlan {
    uint32_t rooms = 0; // of a round, all in flight at the same time
    uint32_t room_pages = 0;
    uint32_t layers = 0;
    uint32_t pool_pages = 0; // of each layer
    uint32_t shards = 0;
    uint64_t seed = 0;

    std::vector<uint64_t> words() const;
    static ServingPlan from(const std::vector<uint64_t> &words);

    size_t page_bytes_of_all_layers() const { return kPageBytes * layers; }
    size_t pool_bytes() const { return page_bytes_of_all_layers() * pool_pages; }
    uint64_t room_bytes() const { return page_bytes_of_all_layers() * room_pages; }
    size_t offset(uint32_t layer, uint32_t page) const { return (size_t{layer} * pool_pages + page) * kPageBytes; }
    // Each layer of the pool, as a tensor.
    std::vector<kvf_tensor> tensors(char *pool) const;
};

// A round of its own kind: as many rooms as it takes for each page of the pool to be in one. After it the kernel has
// nothing more to do for a page that is new to a process.
constexpr uint64_t kCoveringRound = UINT64_MAX;

// Which pages a room has. Rooms share pages, since all of them together are larger than any memory: so a page of the
// decode side always comes from the same page of the prefill side, whichever room brings it.
class PageMap {
  public:
    explicit PageMap(const ServingPlan &plan);

    // The decode side's pages of each room of a round, scattered over the pool; rounds differ.
    std::vector<std::vector<uint32_t>> rooms_of(uint64_t round) const;
    // Where a page of the decode side comes from.
    uint32_t source(uint32_t page) const { return source_[page]; }
    std::vector<uint32_t> sources(const std::vector<uint32_t> &pages) const;

  private:
    ServingPlan plan_;
    std::vector<uint32_t> source_;
};

// Writes what the prefill side's page of a layer holds, which no other page does.
void write_page(char *at, uint32_t layer, uint32_t page);
// Whether it does.
bool is_page(const char *at, uint32_t layer, uint32_t page);

} // namespace bench
