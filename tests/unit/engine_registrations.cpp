// What is registered: every mistake in a tensor by its own status, the regions that tensors are laid into, the limits.
#include "engine/registrations.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

namespace kvf {
namespace {

class RegistrationsTest : public testing::Test {
  protected:
    RegistrationsTest() : memory_(1 << 20) {}

    // A tensor of 4 pages of 64 bytes.
    kvf_tensor tensor(uint32_t layer, uint64_t offset) { return tensor_at(layer, memory_.data() + offset); }

    static kvf_tensor tensor_at(uint32_t layer, void *base) {
        kvf_tensor out{};
        out.layer = layer;
        out.base = base;
        out.page_count = 4;
        out.page_bytes = 64;
        return out;
    }

    Status add(const std::vector<kvf_tensor> &tensors) {
        std::shared_ptr<const Layout> next;
        Status status = registrations_.add(tensors, &next);
        if (status.ok())
            registrations_.adopt(std::move(next));
        return status;
    }

    // Neither code nor sentence may be missing, and nothing may have changed.
    void expect_refused(int code, const std::vector<kvf_tensor> &tensors, const std::string &sentence) {
        const auto before = registrations_.layout();
        const Status status = add(tensors);
        EXPECT_EQ(status.code(), code) << status.sentence();
        EXPECT_NE(status.sentence().find(sentence), std::string::npos) << status.sentence();
        EXPECT_EQ(registrations_.layout(), before);
    }

    const Layout &layout() const { return *registrations_.layout(); }

    std::vector<uint8_t> memory_;
    MemoryPools pools_;
    Registrations registrations_{pools_};
};

// ------------------------------------------------------------------------------------------------------ what is wrong

TEST_F(RegistrationsTest, null_memory_and_pages_of_nothing_are_empty) {
    kvf_tensor it = tensor(3, 0);
    it.base = nullptr;
    expect_refused(KVF_ERR_EMPTY, {it}, "tensor (group 0, layer 3, part 0): base is NULL");
    it = tensor(3, 0);
    it.page_count = 0;
    expect_refused(KVF_ERR_EMPTY, {it}, "page_count is 0 and page_bytes 64");
    it = tensor(3, 0);
    it.page_bytes = 0;
    expect_refused(KVF_ERR_EMPTY, {it}, "page_count is 4 and page_bytes 0");
}

TEST_F(RegistrationsTest, ranges_that_wrap_are_refused_in_every_way_to_wrap) {
    kvf_tensor it = tensor(0, 0);
    it.page_count = UINT32_MAX;
    it.page_bytes = uint64_t{1} << 33;
    expect_refused(KVF_ERR_RANGE, {it}, "wrap around the address space");
    it = tensor(0, 0);
    it.page_stride = UINT64_MAX - 10;
    expect_refused(KVF_ERR_RANGE, {it}, "4 pages 18446744073709551605 bytes apart");
    it = tensor(0, 0);
    it.page_count = 2;
    it.page_stride = UINT64_MAX - 32;
    expect_refused(KVF_ERR_RANGE, {it}, "wrap");
    it = tensor_at(0, reinterpret_cast<void *>(UINTPTR_MAX - 255));
    expect_refused(KVF_ERR_RANGE, {it}, "wrap");
    it = tensor(0, 0);
    it.page_count = uint64_t{1} << 32;
    expect_refused(KVF_ERR_RANGE, {it}, "page_count is 4294967296; page indices have 32 bits");
}

TEST_F(RegistrationsTest, a_stride_below_the_page_is_refused) {
    kvf_tensor it = tensor(0, 0);
    it.page_stride = 63;
    expect_refused(KVF_ERR_INVALID, {it}, "page_stride 63 is below page_bytes 64");
}

TEST_F(RegistrationsTest, an_unknown_kind_of_memory_is_refused) {
    kvf_tensor it = tensor(0, 0);
    it.memory_kind = 9;
    expect_refused(KVF_ERR_UNSUPPORTED, {it}, "memory_kind is 9");
}

TEST_F(RegistrationsTest, interval_fields_are_all_there_or_none) {
    const auto with = [&](uint64_t rows, uint64_t begin, uint64_t count, uint64_t total, uint64_t unit) {
        kvf_tensor it = tensor(0, 0);
        it.rows = rows;
        it.axis_begin = begin;
        it.axis_count = count;
        it.axis_total = total;
        it.unit_bytes = unit;
        return it;
    };
    expect_refused(KVF_ERR_INVALID, {with(0, 0, 4, 8, 16)}, "rows 0, axis_count 4, unit_bytes 16");
    expect_refused(KVF_ERR_INVALID, {with(1, 0, 0, 8, 16)}, "axis_count 0");
    expect_refused(KVF_ERR_INVALID, {with(1, 0, 4, 8, 0)}, "unit_bytes 0");
    expect_refused(KVF_ERR_INVALID, {with(0, 0, 0, 8, 0)}, "expected none of them 0");
    expect_refused(KVF_ERR_INVALID, {with(1, 5, 4, 8, 16)},
                   "the interval of 4 units from 5 is not within axis_total 8");
    expect_refused(KVF_ERR_INVALID, {with(1, UINT64_MAX, 4, 8, 16)}, "is not within axis_total 8");
    expect_refused(KVF_ERR_INVALID, {with(2, 0, 4, 8, 16)},
                   "page_bytes is 64; expected rows 2 x axis_count 4 x unit_bytes 16");
    expect_refused(KVF_ERR_INVALID, {with(uint64_t{1} << 62, 0, 4, 8, 16)}, "page_bytes is 64");
    EXPECT_TRUE(add({with(1, 4, 4, 8, 16)}).ok());
    EXPECT_EQ(layout().tensors[0].axis_begin, 4u);
}

TEST_F(RegistrationsTest, a_name_is_registered_once) {
    expect_refused(KVF_ERR_DUPLICATE, {tensor(3, 0), tensor(4, 4096), tensor(3, 8192)},
                   "tensor (group 0, layer 3, part 0) is registered twice");
    ASSERT_TRUE(add({tensor(3, 0)}).ok());
    expect_refused(KVF_ERR_DUPLICATE, {tensor(3, 8192)}, "tensor (group 0, layer 3, part 0) is registered twice");
    kvf_tensor other_part = tensor(3, 8192);
    other_part.part = KVF_PART_V;
    EXPECT_TRUE(add({other_part}).ok());
}

TEST_F(RegistrationsTest, overlaps_that_disagree_are_refused) {
    ASSERT_TRUE(add({tensor(0, 0)}).ok());
    expect_refused(KVF_ERR_OVERLAP, {tensor(1, 64)}, "share memory but not their pages");
    expect_refused(KVF_ERR_OVERLAP, {tensor(1, 32)}, "tensor (group 0, layer 1, part 0)");
    expect_refused(KVF_ERR_OVERLAP, {tensor(1, 4096), tensor(2, 4096 + 255)}, "share memory");
    kvf_tensor fewer_pages = tensor(1, 0);
    fewer_pages.page_count = 3;
    expect_refused(KVF_ERR_OVERLAP, {fewer_pages}, "share memory");
    kvf_tensor smaller_pages = tensor(1, 0);
    smaller_pages.page_bytes = 32;
    smaller_pages.page_stride = 64;
    expect_refused(KVF_ERR_OVERLAP, {smaller_pages}, "share memory");
    // A long one before, a short one behind its first page, and one that lies past the short one's end.
    kvf_tensor sparse = tensor(1, 8192);
    sparse.page_stride = 1024;
    kvf_tensor gap = tensor(2, 8192 + 64);
    gap.page_count = 1;
    gap.page_stride = 1024;
    kvf_tensor across = tensor(3, 8192 + 1024 - 32);
    across.page_count = 1;
    expect_refused(KVF_ERR_OVERLAP, {sparse, gap, across}, "share memory");
}

TEST_F(RegistrationsTest, overlaps_that_agree_are_taken) {
    // The same pages under two names.
    ASSERT_TRUE(add({tensor(0, 0), tensor(1, 0)}).ok());
    // Keys and values side by side in one page.
    std::vector<kvf_tensor> interleaved;
    for (uint32_t layer = 2; layer < 6; ++layer) {
        interleaved.push_back(tensor(layer, 8192 + layer * 64));
        interleaved.back().page_stride = 256;
    }
    ASSERT_TRUE(add(interleaved).ok());
    EXPECT_EQ(layout().tensors.size(), 6u);
    EXPECT_EQ(layout().tensors[2].page_stride, 256u);
}

TEST_F(RegistrationsTest, interleaved_pages_that_reach_into_the_next_are_refused) {
    kvf_tensor first = tensor(0, 0);
    first.page_stride = 128;
    kvf_tensor second = tensor(1, 65);
    second.page_stride = 128;
    expect_refused(KVF_ERR_OVERLAP, {first, second}, "share memory");
    second.base = memory_.data() + 64;
    EXPECT_TRUE(add({first, second}).ok());
}

TEST_F(RegistrationsTest, of_a_call_with_one_mistake_nothing_is_taken) {
    kvf_tensor bad = tensor(1, 4096);
    bad.page_count = 0;
    expect_refused(KVF_ERR_EMPTY, {tensor(0, 0), bad}, "layer 1");
    EXPECT_TRUE(layout().tensors.empty());
    EXPECT_EQ(registrations_.limits(), nullptr);
}

// ------------------------------------------------------------------------------------------------------------ regions

// Every tensor lies in its region, where the region says it does.
void check_places(const Layout &layout, const std::vector<kvf_tensor> &tensors) {
    for (const kvf_tensor &given : tensors) {
        const TensorName name{given.group, given.layer, given.part};
        const auto found = std::find_if(layout.tensors.begin(), layout.tensors.end(),
                                        [&](const Tensor &tensor) { return tensor.name == name; });
        ASSERT_NE(found, layout.tensors.end());
        ASSERT_LT(found->region, layout.regions.size());
        const MemoryRegion &region = layout.regions[found->region];
        EXPECT_EQ(region.base + found->region_offset, given.base);
        EXPECT_LE(found->region_offset + found->span(), region.length);
    }
}

TEST_F(RegistrationsTest, neighbours_share_a_region_and_strangers_do_not) {
    const std::vector<kvf_tensor> tensors{tensor(2, 512), tensor(0, 0), tensor(1, 256), tensor(3, 8192)};
    ASSERT_TRUE(add(tensors).ok());
    check_places(layout(), tensors);
    ASSERT_EQ(layout().regions.size(), 2u);
    EXPECT_EQ(layout().regions[0].base, memory_.data());
    EXPECT_EQ(layout().regions[0].length, 768u);
    EXPECT_EQ(layout().regions[1].length, 256u);
    EXPECT_EQ(layout().regions[0].fd, -1);
}

TEST_F(RegistrationsTest, regions_stay_as_they_are_when_tensors_are_added) {
    const std::vector<kvf_tensor> first{tensor(0, 0), tensor(1, 4096)};
    ASSERT_TRUE(add(first).ok());
    const auto before = registrations_.layout();
    const std::vector<kvf_tensor> second{tensor(2, 256), tensor(3, 2048)};
    ASSERT_TRUE(add(second).ok());
    check_places(layout(), first);
    check_places(layout(), second);
    EXPECT_EQ(before->version + 1, layout().version);
    ASSERT_EQ(layout().regions.size(), 4u);
    for (size_t i = 0; i < before->regions.size(); ++i) {
        EXPECT_EQ(layout().regions[i].base, before->regions[i].base);
        EXPECT_EQ(layout().regions[i].length, before->regions[i].length);
    }
}

TEST_F(RegistrationsTest, a_name_for_registered_memory_needs_no_region_of_its_own) {
    ASSERT_TRUE(add({tensor(0, 0)}).ok());
    ASSERT_TRUE(add({tensor(1, 0)}).ok());
    EXPECT_EQ(layout().regions.size(), 1u);
}

TEST_F(RegistrationsTest, a_pool_is_one_region_however_many_tensors_lie_in_it) {
    void *pool = nullptr;
    ASSERT_TRUE(pools_.allocate(100'000, &pool).ok());
    auto *base = static_cast<uint8_t *>(pool);
    const std::vector<kvf_tensor> tensors{tensor_at(0, base + 512), tensor_at(1, base + 50'000), tensor(2, 0)};
    ASSERT_TRUE(add(tensors).ok());
    check_places(layout(), tensors);
    ASSERT_EQ(layout().regions.size(), 2u);
    const MemoryRegion &region = layout().regions[layout().tensors[0].region];
    EXPECT_EQ(region.base, base);
    EXPECT_GE(region.length, 100'000u);
    EXPECT_GE(region.fd, 0);
    EXPECT_TRUE(registrations_.uses(base, 1));
    EXPECT_TRUE(add({tensor_at(3, base + 60'000)}).ok());
    EXPECT_EQ(layout().regions.size(), 2u);
}

TEST_F(RegistrationsTest, tensors_are_kept_by_name) {
    kvf_tensor aux = tensor(0, 8192);
    aux.group = 1;
    ASSERT_TRUE(add({aux, tensor(5, 0), tensor(1, 4096)}).ok());
    ASSERT_EQ(layout().tensors.size(), 3u);
    EXPECT_EQ(layout().tensors[0].name, (TensorName{0, 1, 0}));
    EXPECT_EQ(layout().tensors[1].name, (TensorName{0, 5, 0}));
    EXPECT_EQ(layout().tensors[2].name, (TensorName{1, 0, 0}));
}

// ------------------------------------------------------------------------------------------------------------- limits

TEST_F(RegistrationsTest, the_smallest_tensor_is_a_groups_limit) {
    kvf_tensor small = tensor(1, 4096);
    small.page_count = 2;
    kvf_tensor aux = tensor(0, 8192);
    aux.group = 7;
    ASSERT_TRUE(add({tensor(0, 0), small, aux}).ok());
    const GroupLimits *limits = registrations_.limits();
    ASSERT_NE(limits, nullptr);
    ASSERT_NE(limits->find(0), nullptr);
    EXPECT_EQ(limits->find(0)->pages, 2u);
    EXPECT_EQ(limits->find(0)->smallest, (TensorName{0, 1, 0}));
    ASSERT_NE(limits->find(7), nullptr);
    EXPECT_EQ(limits->find(7)->pages, 4u);
    EXPECT_EQ(limits->find(3), nullptr);
}

TEST_F(RegistrationsTest, limits_that_somebody_reads_outlive_their_successors) {
    ASSERT_TRUE(add({tensor(0, 0)}).ok());
    const GroupLimits *first = registrations_.limits();
    kvf_tensor small = tensor(1, 4096);
    small.page_count = 1;
    ASSERT_TRUE(add({small}).ok());
    EXPECT_EQ(first->find(0)->pages, 4u);
    EXPECT_EQ(registrations_.limits()->find(0)->pages, 1u);
}

// -------------------------------------------------------------------------------------------------------------- pools

TEST_F(RegistrationsTest, a_pool_is_zeroed_whole_pages_and_freed_once) {
    void *pool = nullptr;
    ASSERT_TRUE(pools_.allocate(1, &pool).ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool) % static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), 0u);
    EXPECT_EQ(*static_cast<uint8_t *>(pool), 0);
    EXPECT_TRUE(pools_.find(pool, static_cast<uint64_t>(sysconf(_SC_PAGESIZE))));
    EXPECT_FALSE(pools_.find(pool, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + 1));
    EXPECT_EQ(pools_.release(static_cast<uint8_t *>(pool) + 1).code(), KVF_ERR_INVALID);
    EXPECT_TRUE(pools_.release(pool).ok());
    EXPECT_EQ(pools_.release(pool).code(), KVF_ERR_INVALID);
    EXPECT_FALSE(pools_.find(pool, 1));
}

TEST_F(RegistrationsTest, impossible_sizes_are_refused) {
    void *pool = nullptr;
    EXPECT_EQ(pools_.allocate(0, &pool).code(), KVF_ERR_EMPTY);
    EXPECT_EQ(pools_.allocate(SIZE_MAX, &pool).code(), KVF_ERR_NO_MEMORY);
    EXPECT_EQ(pools_.allocate(SIZE_MAX / 2, &pool).code(), KVF_ERR_NO_MEMORY);
    EXPECT_EQ(pool, nullptr);
}

} // namespace
} // namespace kvf
