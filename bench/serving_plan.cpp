#include "serving_plan.h"

#include <cstring>

#include "random.h"

namespace bench {
namespace {

constexpr size_t kWords = kPageBytes / sizeof(uint64_t);
static_assert(kWords * sizeof(uint64_t) == kPageBytes);

uint64_t first_word(uint32_t layer, uint32_t page) {
    return mix((uint64_t{layer} << 32 | page) + kGolden);
}

} // namespace

std::vector<uint64_t> ServingPlan::words() const {
    return {rooms, room_pages, layers, pool_pages, shards, seed};
}

ServingPlan ServingPlan::from(const std::vector<uint64_t> &words) {
    ServingPlan out;
    out.rooms = static_cast<uint32_t>(words.at(0));
    out.room_pages = static_cast<uint32_t>(words.at(1));
    out.layers = static_cast<uint32_t>(words.at(2));
    out.pool_pages = static_cast<uint32_t>(words.at(3));
    out.shards = static_cast<uint32_t>(words.at(4));
    out.seed = words.at(5);
    return out;
}

std::vector<kvf_tensor> ServingPlan::tensors(char *pool) const {
    std::vector<kvf_tensor> out;
    for (uint32_t layer = 0; layer < layers; ++layer)
        out.push_back(tensor(0, layer, pool + offset(layer, 0), pool_pages, kPageBytes));
    return out;
}

PageMap::PageMap(const ServingPlan &plan) : plan_(plan), source_(shuffled(plan.pool_pages, plan.seed)) {}

// Rooms are dealt from a shuffled deck of all pages, and from a new one when it is used up.
std::vector<std::vector<uint32_t>> PageMap::rooms_of(uint64_t round) const {
    const bool covering = round == kCoveringRound;
    const uint64_t rooms = covering ? (plan_.pool_pages + plan_.room_pages - 1) / plan_.room_pages : plan_.rooms;
    std::vector<std::vector<uint32_t>> out;
    std::vector<uint32_t> deck;
    size_t dealt = 0;
    for (uint64_t room = 0; room < rooms; ++room) {
        if (deck.empty() || (!covering && deck.size() - dealt < plan_.room_pages)) {
            deck = shuffled(plan_.pool_pages, mix(plan_.seed ^ round * kGolden) + room);
            dealt = 0;
        }
        const size_t next = std::min(dealt + plan_.room_pages, deck.size());
        out.emplace_back(deck.data() + dealt, deck.data() + next);
        dealt = next;
    }
    return out;
}

std::vector<uint32_t> PageMap::sources(const std::vector<uint32_t> &pages) const {
    std::vector<uint32_t> out;
    out.reserve(pages.size());
    for (const uint32_t page : pages)
        out.push_back(source_[page]);
    return out;
}

// Each word differs from the next, so that bytes at a wrong place are noticed as well.
void write_page(char *at, uint32_t layer, uint32_t page) {
    const uint64_t first = first_word(layer, page);
    for (uint64_t i = 0; i < kWords; ++i) {
        const uint64_t word = first + i * kGolden;
        std::memcpy(at + i * sizeof word, &word, sizeof word);
    }
}

bool is_page(const char *at, uint32_t layer, uint32_t page) {
    const uint64_t first = first_word(layer, page);
    uint64_t difference = 0;
    for (uint64_t i = 0; i < kWords; ++i) {
        uint64_t word = 0;
        std::memcpy(&word, at + i * sizeof word, sizeof word);
        difference |= word ^ (first + i * kGolden);
    }
    return difference == 0;
}

} // namespace bench
