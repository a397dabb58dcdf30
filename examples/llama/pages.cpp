#include "pages.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace llama {

KvPool::KvPool(const Config &config, uint32_t pages, const Allocate &allocate)
    : pages_(pages), row_floats_(static_cast<size_t>(config.kv_dim())) {
    const size_t count = static_cast<size_t>(config.layers) * 2;
    for (size_t i = 0; i < count; ++i)
        tensors_.push_back(static_cast<float *>(allocate(pages * page_bytes())));
}

// FNV-1a over the bits of each float.
uint64_t KvPool::digest(std::span<const uint32_t> pages, size_t tokens) const {
    uint64_t out = 0xcbf29ce484222325;
    for (const float *tensor : tensors_) {
        for (size_t first = 0; first < tokens; first += kPageTokens) {
            const float *page = tensor + pages[first / kPageTokens] * page_floats();
            const size_t rows = std::min<size_t>(kPageTokens, tokens - first);
            for (size_t i = 0; i < rows * row_floats_; ++i)
                out = (out ^ std::bit_cast<uint32_t>(page[i])) * 0x100000001b3;
        }
    }
    return out;
}

IndexAllocator::IndexAllocator(uint32_t count, uint64_t seed) : free_(count), random_(seed) {
    std::iota(free_.begin(), free_.end(), 0U);
}

std::vector<uint32_t> IndexAllocator::take(size_t count) {
    std::vector<uint32_t> out;
    if (count > free_.size())
        return out;
    for (size_t i = 0; i < count; ++i) {
        std::swap(free_[below(random_, static_cast<uint32_t>(free_.size()))], free_.back());
        out.push_back(free_.back());
        free_.pop_back();
    }
    return out;
}

void IndexAllocator::give_back(std::span<const uint32_t> indices) {
    free_.insert(free_.end(), indices.begin(), indices.end());
}

} // namespace llama
