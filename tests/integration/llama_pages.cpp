// The paged cache: attention through scattered pages is attention over contiguous rows, and no page has two owners.
#include "pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "kernels.h"

namespace llama {
namespace {

TEST(Attention, through_scattered_pages_equals_attention_over_contiguous_rows) {
    constexpr size_t kTokens = 3 * kPageTokens + 5, kHeadSize = 8, kKvHeads = 2;
    const Config config = {static_cast<int32_t>(kHeadSize * kKvHeads), 4, 1, kKvHeads, kKvHeads, 4, 64};
    Random random(7);
    std::vector<std::vector<float>> memory;
    const KvPool pool(config, 16, [&](size_t bytes) {
        memory.emplace_back(bytes / sizeof(float), 1e9F); // what must not be read would show
        return memory.back().data();
    });
    const std::vector<uint32_t> pages = IndexAllocator(16, 3).take(pages_for(kTokens));
    ASSERT_FALSE(std::is_sorted(pages.begin(), pages.end()));

    const size_t row = pool.row_floats();
    std::vector<float> keys(kTokens * row), values(kTokens * row);
    for (std::vector<float> *rows : {&keys, &values})
        std::generate(rows->begin(), rows->end(), [&] { return static_cast<float>(below(random, 2000)) / 1000 - 1; });
    for (uint32_t token = 0; token < kTokens; ++token) {
        const uint32_t page = pages[token / kPageTokens], place = token % kPageTokens;
        std::copy_n(keys.data() + token * row, row, pool.row(0, kKeys, page, place));
        std::copy_n(values.data() + token * row, row, pool.row(0, kValues, page, place));
    }

    const unsigned whole[] = {0};
    std::vector<float> query(kHeadSize), scores(kTokens), paged(kHeadSize), contiguous(kHeadSize);
    std::generate(query.begin(), query.end(), [&] { return static_cast<float>(below(random, 2000)) / 500 - 2; });
    for (const size_t tokens : {size_t{1}, size_t{kPageTokens}, size_t{kPageTokens + 1}, kTokens}) {
        for (size_t offset = 0; offset < row; offset += kHeadSize) {
            const std::span<float> used(scores.data(), tokens);
            attend(paged, query, {pool.tensor(0, kKeys), row, kPageTokens, pages},
                   {pool.tensor(0, kValues), row, kPageTokens, pages}, offset, used);
            attend(contiguous, query, {keys.data(), row, kTokens, whole}, {values.data(), row, kTokens, whole}, offset,
                   used);
            EXPECT_EQ(paged, contiguous) << tokens << " tokens, head at " << offset;
        }
    }
}

TEST(KvPool, the_digest_tells_rows_that_are_other_or_elsewhere_and_not_what_lies_behind_them) {
    const Config config = {8, 4, 2, 4, 2, 4, 64};
    std::vector<std::vector<float>> memory;
    const KvPool pool(config, 4, [&](size_t bytes) {
        memory.emplace_back(bytes / sizeof(float));
        return memory.back().data();
    });
    constexpr size_t kTokens = kPageTokens + 3;
    const std::vector<uint32_t> pages{2, 0};
    *pool.row(1, kKeys, 2, 5) = 1;
    const uint64_t digest = pool.digest(pages, kTokens);

    *pool.row(1, kKeys, 0, 3) = 7; // behind the last token
    *pool.row(1, kKeys, 3, 0) = 7; // of no page of the sequence
    EXPECT_EQ(pool.digest(pages, kTokens), digest);

    for (const Part part : {kKeys, kValues}) {
        for (const uint32_t layer : {0U, 1U}) {
            float *value = pool.row(layer, part, 0, 2) + pool.row_floats() - 1;
            *value = 3;
            EXPECT_NE(pool.digest(pages, kTokens), digest) << layer << ' ' << part;
            *value = 0;
        }
    }
    std::swap(*pool.row(1, kKeys, 2, 5), *pool.row(1, kValues, 2, 5));
    EXPECT_NE(pool.digest(pages, kTokens), digest);
}

TEST(IndexAllocator, gives_each_index_to_one_owner) {
    IndexAllocator free(100, 1);
    std::vector<uint32_t> first = free.take(60);
    const std::vector<uint32_t> second = free.take(40);
    std::set<uint32_t> all(first.begin(), first.end());
    all.insert(second.begin(), second.end());
    EXPECT_EQ(all.size(), 100U);
    EXPECT_EQ(*all.rbegin(), 99U);

    EXPECT_TRUE(free.take(1).empty());
    free.give_back(first);
    std::vector<uint32_t> again = free.take(60);
    std::sort(first.begin(), first.end());
    std::sort(again.begin(), again.end());
    EXPECT_EQ(first, again);
}

TEST(IndexAllocator, takes_all_or_nothing) {
    IndexAllocator free(10, 1);
    EXPECT_TRUE(free.take(11).empty());
    EXPECT_EQ(free.free(), 10U);
}

TEST(IndexAllocator, the_order_is_the_seeds) {
    EXPECT_EQ(IndexAllocator(50, 5).take(50), IndexAllocator(50, 5).take(50));
    EXPECT_NE(IndexAllocator(50, 5).take(50), IndexAllocator(50, 6).take(50));
}

} // namespace
} // namespace llama
