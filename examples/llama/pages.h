// The paged KV cache: a pool of pages per layer and part, and which of them are free. What stands in a page, and
// whose it is, is not known here.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "checkpoint.h"
#include "random.h"

namespace llama {

constexpr uint32_t kPageTokens = 16;

// Pages that hold so many tokens.
constexpr uint32_t pages_for(size_t tokens) {
    return static_cast<uint32_t>((tokens + kPageTokens - 1) / kPageTokens);
}

enum Part : uint32_t { kKeys = 0, kValues = 1 };

// One tensor per (layer, part). A page is [kPageTokens, kv_heads, head_size] floats; a sequence has the same page
// indices in every tensor.
class KvPool {
  public:
    // Gives zeroed memory that outlives the pool.
    using Allocate = std::function<void *(size_t bytes)>;

    KvPool(const Config &config, uint32_t pages, const Allocate &allocate);

    uint32_t pages() const { return pages_; }
    size_t row_floats() const { return row_floats_; } // of one token: kv_heads * head_size
    size_t page_floats() const { return row_floats_ * kPageTokens; }
    size_t page_bytes() const { return page_floats() * sizeof(float); }      // in one tensor
    size_t bytes_per_page() const { return page_bytes() * tensors_.size(); } // in all tensors
    float *tensor(uint32_t layer, Part part) const { return tensors_[layer * 2 + part]; }

    // The row of a token: [kv_heads, head_size].
    float *row(uint32_t layer, Part part, uint32_t page, uint32_t token_in_page) const {
        return tensor(layer, part) + page * page_floats() + token_in_page * row_floats_;
    }

    // Of all keys and values of a sequence's first tokens, in order. The model can't tell pages that changed places, as
    // a key carries its position; this can.
    uint64_t digest(std::span<const uint32_t> pages, size_t tokens) const;

  private:
    uint32_t pages_;
    size_t row_floats_;
    std::vector<float *> tensors_;
};

// The free indices below a count. It gives them out in random order, so that the pages of a sequence are neither
// contiguous nor sorted, as they are not in a server that has run for a while.
class IndexAllocator {
  public:
    IndexAllocator(uint32_t count, uint64_t seed);

    // Takes that many, or none and an empty vector when fewer are free.
    std::vector<uint32_t> take(size_t count);
    void give_back(std::span<const uint32_t> indices);

    size_t free() const { return free_.size(); }

  private:
    std::vector<uint32_t> free_;
    Random random_;
};

} // namespace llama
