// The planner against the plainest model there is: every byte that two ranks share of every page, one by one.
#include "room/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

// The planner hands these through; here they are names of memory that is not there.
struct kvf_region {
    int unused;
};
struct kvf_remote {
    int unused;
};

namespace kvf {
namespace {

using Random = std::mt19937_64;

uint64_t between(Random &random, uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
}

// A byte of registered memory.
struct Place {
    const void *region;
    uint64_t offset;
    auto operator<=>(const Place &) const = default;
};

// From the peer's bytes to the bytes of ours that belong there.
using Copies = std::map<Place, Place>;

struct Pair {
    Tensor local, remote;
    TensorRoute route;
};

struct Group {
    GroupRoute route;
    std::vector<Pair> pairs; // in the order of the route's tensors
    uint32_t layer_begin = 0, layer_count = 0;
    std::vector<uint32_t> local, remote;
};

constexpr uint32_t kPages = 24;
kvf_region g_local[2];
kvf_remote g_remote[2];

void make_interval(Random &random, Tensor *tensor) {
    tensor->axis_begin = between(random, 0, tensor->axis_total - 1);
    tensor->axis_count = between(random, 1, tensor->axis_total - tensor->axis_begin);
}

void make_pages(Random &random, Tensor *tensor) {
    tensor->page_bytes = tensor->rows * tensor->axis_count * tensor->unit_bytes;
    tensor->page_stride = tensor->page_bytes + (between(random, 0, 1) != 0 ? between(random, 1, 40) : 0);
    tensor->page_count = kPages;
}

// Two ranks' tensors of one name. False when they share nothing.
bool make_pair(Random &random, uint32_t layer, Pair *pair) {
    Tensor &local = pair->local;
    local.name = {0, layer, 0};
    local.rows = between(random, 1, 4);
    local.unit_bytes = between(random, 1, 8);
    local.axis_total = between(random, 1, 8);
    pair->remote = local;
    make_interval(random, &local);
    if (between(random, 0, 1) != 0) {
        pair->remote.axis_begin = local.axis_begin;
        pair->remote.axis_count = local.axis_count;
    } else {
        make_interval(random, &pair->remote);
    }
    make_pages(random, &local);
    make_pages(random, &pair->remote);
    if (!route_tensor(local, pair->remote, &pair->route))
        return false;
    pair->route.local = &g_local[between(random, 0, 1)];
    pair->route.remote = &g_remote[between(random, 0, 1)];
    return true;
}

// All pages, in runs that are dealt anew.
std::vector<uint32_t> shuffled_runs(Random &random, const std::vector<uint32_t> &lengths) {
    std::vector<std::vector<uint32_t>> runs;
    uint32_t page = 0;
    for (const uint32_t length : lengths) {
        runs.emplace_back(length);
        std::iota(runs.back().begin(), runs.back().end(), page);
        page += length;
    }
    std::shuffle(runs.begin(), runs.end(), random);
    std::vector<uint32_t> out;
    for (const auto &run : runs)
        out.insert(out.end(), run.begin(), run.end());
    return out;
}

std::vector<uint32_t> run_lengths(Random &random) {
    std::vector<uint32_t> lengths;
    for (uint32_t left = kPages; left != 0; left -= lengths.back())
        lengths.push_back(static_cast<uint32_t>(between(random, 1, std::min(left, 6u))));
    return lengths;
}

Group make_group(Random &random, uint64_t *local_end, uint64_t *remote_end) {
    Group group;
    uint32_t layer = 0;
    for (uint64_t tensors = between(random, 1, 5); tensors != 0; --tensors) {
        Pair pair;
        layer += static_cast<uint32_t>(between(random, 0, 2));
        if (!make_pair(random, layer, &pair))
            continue;
        // Tensors lie one behind the other, with a gap, in what the regions name.
        pair.local.region_offset = *local_end + between(random, 0, 16);
        pair.remote.region_offset = *remote_end + between(random, 0, 16);
        *local_end = pair.local.region_offset + pair.local.span();
        *remote_end = pair.remote.region_offset + pair.remote.span();
        pair.route.local_offset += pair.local.region_offset;
        pair.route.remote_offset += pair.remote.region_offset;
        group.route.tensors.push_back(pair.route);
        group.pairs.push_back(pair);
    }
    if (between(random, 0, 2) != 0) {
        group.layer_begin = static_cast<uint32_t>(between(random, 0, 8));
        group.layer_count = static_cast<uint32_t>(between(random, 1, 6));
    }
    const std::vector<uint32_t> lengths = run_lengths(random);
    group.local = shuffled_runs(random, lengths);
    group.remote = shuffled_runs(random, between(random, 0, 1) != 0 ? lengths : run_lengths(random));
    group.local.resize(between(random, 0, kPages));
    group.remote.resize(group.local.size());
    return group;
}

// Byte by byte, from what a page is.
void expect_pair(const Group &group, const Pair &pair, Copies *expected) {
    const Tensor &a = pair.local;
    const Tensor &b = pair.remote;
    for (size_t i = 0; i < group.local.size(); ++i)
        for (uint64_t row = 0; row < a.rows; ++row)
            for (uint64_t unit = 0; unit < a.axis_total; ++unit) {
                if (unit < a.axis_begin || unit >= a.axis_begin + a.axis_count || unit < b.axis_begin ||
                    unit >= b.axis_begin + b.axis_count)
                    continue;
                const uint64_t from = a.region_offset + group.local[i] * a.page_stride +
                                      (row * a.axis_count + unit - a.axis_begin) * a.unit_bytes;
                const uint64_t to = b.region_offset + group.remote[i] * b.page_stride +
                                    (row * b.axis_count + unit - b.axis_begin) * b.unit_bytes;
                for (uint64_t byte = 0; byte < a.unit_bytes; ++byte)
                    (*expected)[{pair.route.remote, to + byte}] = {pair.route.local, from + byte};
            }
}

Copies expected_copies(const std::vector<Group> &groups) {
    Copies expected;
    for (const Group &group : groups)
        for (const Pair &pair : group.pairs) {
            const uint64_t layer = pair.local.name.layer;
            const bool in_range = layer >= group.layer_begin && layer < uint64_t{group.layer_begin} + group.layer_count;
            if (group.layer_count == 0 || in_range)
                expect_pair(group, pair, &expected);
        }
    return expected;
}

void perform(const kvf_segment &segment, Copies *done) {
    for (uint64_t piece = 0; piece < segment.count; ++piece)
        for (uint64_t byte = 0; byte < segment.length; ++byte) {
            const Place to{segment.remote, segment.remote_offset + piece * segment.remote_stride + byte};
            const Place from{segment.local, segment.local_offset + piece * segment.local_stride + byte};
            ASSERT_TRUE(done->emplace(to, from).second) << "byte " << to.offset << " is written twice";
        }
}

uint64_t bytes_of(std::span<const kvf_segment> segments) {
    return std::accumulate(segments.begin(), segments.end(), uint64_t{0},
                           [](uint64_t sum, const kvf_segment &s) { return sum + s.length * s.count; });
}

// A batch is as large as its limits say and no larger than they and one piece allow.
void check_limits(std::span<const kvf_segment> batch, const BatchLimits &limits, size_t room) {
    ASSERT_FALSE(batch.empty());
    ASSERT_LE(batch.size(), std::min<size_t>(room, limits.segments));
    ASSERT_LT(bytes_of(batch.first(batch.size() - 1)), limits.bytes);
    for (const kvf_segment &segment : batch) {
        if (limits.strided && segment.count != 1)
            continue;
        ASSERT_EQ(segment.count, 1u);
        ASSERT_EQ(segment.local_stride, 0u);
        ASSERT_EQ(segment.remote_stride, 0u);
    }
}

// Runs the plan in batches, of which a transport takes as much as it likes.
void run_plan(Random &random, CopyPlan *plan, Copies *done) {
    BatchLimits limits;
    limits.segments = static_cast<uint32_t>(between(random, 1, 9));
    limits.bytes = between(random, 1, between(random, 0, 1) != 0 ? 64 : 4096);
    limits.strided = between(random, 0, 1) != 0;
    const bool whole = between(random, 0, 1) != 0;
    std::vector<kvf_segment> segments(between(random, 1, 9));
    while (!plan->done()) {
        uint64_t bytes = 0;
        uint32_t count = plan->next(segments, limits, &bytes);
        const std::span<const kvf_segment> batch(segments.data(), count);
        ASSERT_NO_FATAL_FAILURE(check_limits(batch, limits, segments.size()));
        ASSERT_EQ(bytes, bytes_of(batch));
        if (!whole) {
            const auto accepted = static_cast<uint32_t>(between(random, 0, count));
            ASSERT_EQ(plan->keep(accepted, limits), bytes_of(batch.first(accepted)));
            count = accepted;
        }
        for (uint32_t i = 0; i < count; ++i)
            ASSERT_NO_FATAL_FAILURE(perform(segments[i], done));
    }
}

TEST(PlannerTest, every_shared_byte_is_copied_once_and_no_other) {
    for (uint64_t seed = 1; seed <= 400; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        uint64_t local_end = 0;
        uint64_t remote_end = 0;
        std::vector<Group> groups;
        for (uint64_t left = between(random, 1, 3); left != 0; --left)
            groups.push_back(make_group(random, &local_end, &remote_end));
        CopyPlan plan;
        for (const Group &group : groups)
            plan.add(group.route, group.layer_begin, group.layer_count, group.local, group.remote);
        Copies done;
        ASSERT_NO_FATAL_FAILURE(run_plan(random, &plan, &done));
        ASSERT_EQ(done, expected_copies(groups));
    }
}

Tensor tensor_of(uint64_t rows, uint64_t begin, uint64_t count, uint64_t total, uint64_t unit_bytes) {
    Tensor tensor;
    tensor.rows = rows;
    tensor.axis_begin = begin;
    tensor.axis_count = count;
    tensor.axis_total = total;
    tensor.unit_bytes = unit_bytes;
    tensor.page_bytes = tensor.page_stride = rows * count * unit_bytes;
    tensor.page_count = kPages;
    return tensor;
}

// The segments of pages 0 to 9, in one batch.
std::vector<kvf_segment> plan_ten(const Tensor &local, const Tensor &remote, bool strided) {
    GroupRoute route;
    route.tensors.emplace_back();
    EXPECT_TRUE(route_tensor(local, remote, &route.tensors.back()));
    std::vector<uint32_t> pages(10);
    std::iota(pages.begin(), pages.end(), 0);
    CopyPlan plan;
    plan.add(route, 0, 0, pages, pages);
    BatchLimits limits;
    limits.strided = strided;
    std::vector<kvf_segment> segments(limits.segments);
    uint64_t bytes = 0;
    segments.resize(plan.next(segments, limits, &bytes));
    EXPECT_TRUE(plan.done());
    return segments;
}

TEST(PlannerTest, neighbouring_whole_pages_are_one_segment) {
    const Tensor tensor = tensor_of(16, 0, 8, 8, 128);
    const auto segments = plan_ten(tensor, tensor, false);
    ASSERT_EQ(segments.size(), 1u);
    EXPECT_EQ(segments[0].length, 10 * tensor.page_bytes);
}

TEST(PlannerTest, neighbouring_pages_with_gaps_are_one_strided_segment) {
    const Tensor local = tensor_of(16, 0, 8, 8, 128);
    Tensor remote = local;
    remote.page_stride += 64;
    const auto segments = plan_ten(local, remote, true);
    ASSERT_EQ(segments.size(), 1u);
    EXPECT_EQ(segments[0].count, 10u);
    EXPECT_EQ(segments[0].local_stride, local.page_stride);
    EXPECT_EQ(segments[0].remote_stride, remote.page_stride);
    EXPECT_EQ(plan_ten(local, remote, false).size(), 10u);
}

TEST(PlannerTest, a_slice_of_heads_is_one_strided_segment_a_page) {
    const Tensor local = tensor_of(16, 0, 8, 8, 128);
    const Tensor remote = tensor_of(16, 4, 4, 8, 128);
    const auto segments = plan_ten(local, remote, true);
    ASSERT_EQ(segments.size(), 10u);
    EXPECT_EQ(segments[0].length, 4 * 128u);
    EXPECT_EQ(segments[0].count, 16u);
    EXPECT_EQ(plan_ten(local, remote, false).size(), 160u);
}

TEST(PlannerTest, intervals_that_do_not_meet_have_no_route) {
    TensorRoute route;
    EXPECT_FALSE(route_tensor(tensor_of(2, 0, 4, 8, 16), tensor_of(2, 4, 4, 8, 16), &route));
    EXPECT_FALSE(route_tensor(tensor_of(2, 5, 1, 8, 16), tensor_of(2, 0, 5, 8, 16), &route));
    EXPECT_TRUE(route_tensor(tensor_of(2, 0, 5, 8, 16), tensor_of(2, 4, 4, 8, 16), &route));
}

TEST(PlannerTest, a_page_larger_than_the_budget_is_copied_all_the_same) {
    GroupRoute route;
    route.tensors.emplace_back();
    ASSERT_TRUE(route_tensor(tensor_of(1, 0, 1, 1, 4096), tensor_of(1, 0, 1, 1, 4096), &route.tensors.back()));
    CopyPlan plan;
    const std::vector<uint32_t> pages{0, 1};
    plan.add(route, 0, 0, pages, pages);
    BatchLimits limits;
    limits.bytes = 1;
    kvf_segment segment[4];
    uint64_t bytes = 0;
    EXPECT_EQ(plan.next(segment, limits, &bytes), 1u);
    EXPECT_EQ(bytes, 4096u);
    EXPECT_FALSE(plan.done());
    EXPECT_EQ(plan.next(segment, limits, &bytes), 1u);
    EXPECT_TRUE(plan.done());
}

TEST(PlannerTest, nothing_to_copy_is_done_at_once) {
    GroupRoute route;
    route.tensors.emplace_back();
    ASSERT_TRUE(route_tensor(tensor_of(1, 0, 1, 1, 16), tensor_of(1, 0, 1, 1, 16), &route.tensors.back()));
    route.tensors.back().layer = 7;
    const std::vector<uint32_t> pages{0};
    CopyPlan plan;
    EXPECT_TRUE(plan.done());
    plan.add(route, 0, 0, {}, {});
    EXPECT_TRUE(plan.done());
    plan.add(route, 0, 7, pages, pages);
    EXPECT_TRUE(plan.done());
    plan.add(route, 8, UINT32_MAX, pages, pages);
    EXPECT_TRUE(plan.done());
    plan.add(route, 7, UINT32_MAX, pages, pages);
    EXPECT_FALSE(plan.done());
}

TEST(PlannerTest, runs_do_not_go_on_past_the_last_page_index) {
    std::vector<PageRun> runs;
    const std::vector<uint32_t> local{UINT32_MAX - 1, UINT32_MAX, 0};
    const std::vector<uint32_t> remote{4, 5, 6};
    append_runs(local, remote, &runs);
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_EQ(runs[0].count, 2u);
    EXPECT_EQ(runs[1].local, 0u);
    EXPECT_EQ(runs[1].remote, 6u);
}

TEST(PlannerTest, a_run_needs_neighbours_on_both_sides) {
    std::vector<PageRun> runs;
    append_runs(std::vector<uint32_t>{0, 1, 2, 4}, std::vector<uint32_t>{7, 8, 10, 11}, &runs);
    ASSERT_EQ(runs.size(), 3u);
    EXPECT_EQ(runs[0].count, 2u);
    EXPECT_EQ(runs[1].count, 1u);
    EXPECT_EQ(runs[2].count, 1u);
}

} // namespace
} // namespace kvf
