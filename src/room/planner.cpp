#include "room/planner.h"

#include <algorithm>

namespace kvf {

const GroupRoute *Routes::find(uint32_t group) const {
    const auto found = std::lower_bound(groups.begin(), groups.end(), group,
                                        [](const GroupRoute &route, uint32_t wanted) { return route.group < wanted; });
    return found != groups.end() && found->group == group ? &*found : nullptr;
}

bool route_tensor(const Tensor &local, const Tensor &remote, TensorRoute *route) {
    const uint64_t begin = std::max(local.axis_begin, remote.axis_begin);
    const uint64_t end = std::min(local.axis_begin + local.axis_count, remote.axis_begin + remote.axis_count);
    if (begin >= end)
        return false;
    const uint64_t unit = local.unit_bytes;
    route->layer = local.name.layer;
    route->local_offset = (begin - local.axis_begin) * unit;
    route->remote_offset = (begin - remote.axis_begin) * unit;
    route->local_page_stride = local.page_stride;
    route->remote_page_stride = remote.page_stride;
    route->length = (end - begin) * unit;
    route->rows = local.rows;
    route->local_row_stride = local.axis_count * unit;
    route->remote_row_stride = remote.axis_count * unit;
    // Rows that lie end to end on both sides are one piece.
    if (route->length == route->local_row_stride && route->length == route->remote_row_stride) {
        route->length *= route->rows;
        route->rows = 1;
    }
    return true;
}

void append_runs(std::span<const uint32_t> local, std::span<const uint32_t> remote, std::vector<PageRun> *runs) {
    for (size_t i = 0; i < local.size(); ++i) {
        if (!runs->empty()) {
            PageRun &last = runs->back();
            // In 64 bits: a run may end at the last page index.
            if (uint64_t{last.local} + last.count == local[i] && uint64_t{last.remote} + last.count == remote[i]) {
                ++last.count;
                continue;
            }
        }
        runs->push_back({local[i], remote[i], 1});
    }
}

void CopyPlan::add(const GroupRoute &route, uint32_t layer_begin, uint32_t layer_count, std::span<const uint32_t> local,
                   std::span<const uint32_t> remote) {
    std::span<const TensorRoute> tensors = route.tensors;
    if (layer_count != 0) {
        const auto below = [](const TensorRoute &tensor, uint64_t layer) { return tensor.layer < layer; };
        const auto first = std::lower_bound(tensors.begin(), tensors.end(), uint64_t{layer_begin}, below);
        const auto last = std::lower_bound(first, tensors.end(), uint64_t{layer_begin} + layer_count, below);
        tensors = {first, last};
    }
    if (tensors.empty() || local.empty())
        return;
    GroupCopies copies{tensors, {}};
    append_runs(local, remote, &copies.runs);
    groups_.push_back(std::move(copies));
}

void CopyPlan::step(Place *place, uint64_t bytes, bool strided, kvf_segment *segment) const {
    const GroupCopies &group = groups_[place->group];
    const TensorRoute &tensor = group.tensors[place->tensor];
    const PageRun &run = group.runs[place->run];
    const uint64_t local_page = uint64_t{run.local} + place->page;
    const uint64_t remote_page = uint64_t{run.remote} + place->page;
    segment->local = tensor.local;
    segment->remote = tensor.remote;
    segment->local_offset = tensor.local_offset + local_page * tensor.local_page_stride;
    segment->remote_offset = tensor.remote_offset + remote_page * tensor.remote_page_stride;
    segment->length = tensor.length;
    segment->count = 1;
    segment->local_stride = 0;
    segment->remote_stride = 0;

    uint32_t pages = 1;
    if (tensor.rows == 1) {
        const uint32_t left = run.count - place->page;
        const auto fit = static_cast<uint32_t>(std::clamp<uint64_t>(bytes / tensor.length, 1, left));
        if (tensor.length == tensor.local_page_stride && tensor.length == tensor.remote_page_stride) {
            pages = fit;
            segment->length *= pages;
        } else if (strided && fit > 1) {
            pages = fit;
            segment->count = pages;
            segment->local_stride = tensor.local_page_stride;
            segment->remote_stride = tensor.remote_page_stride;
        }
    } else if (strided) {
        segment->count = tensor.rows;
        segment->local_stride = tensor.local_row_stride;
        segment->remote_stride = tensor.remote_row_stride;
    } else {
        segment->local_offset += place->row * tensor.local_row_stride;
        segment->remote_offset += place->row * tensor.remote_row_stride;
        if (++place->row < tensor.rows)
            return;
        place->row = 0;
    }

    place->page += pages;
    if (place->page < run.count)
        return;
    place->page = 0;
    if (++place->run < group.runs.size())
        return;
    place->run = 0;
    if (++place->tensor < group.tensors.size())
        return;
    place->tensor = 0;
    ++place->group;
}

uint32_t CopyPlan::next(std::span<kvf_segment> out, const BatchLimits &limits, uint64_t *bytes) {
    before_ = place_;
    const auto most = static_cast<uint32_t>(std::min<size_t>(out.size(), limits.segments));
    uint32_t count = 0;
    uint64_t sum = 0;
    while (count < most && !done() && sum < limits.bytes) {
        kvf_segment &segment = out[count];
        step(&place_, limits.bytes - sum, limits.strided, &segment);
        sum += segment.length * segment.count;
        ++count;
    }
    *bytes = sum;
    return count;
}

uint64_t CopyPlan::keep(uint32_t segments, const BatchLimits &limits) {
    place_ = before_;
    uint64_t sum = 0;
    kvf_segment segment;
    for (uint32_t i = 0; i < segments; ++i) {
        step(&place_, limits.bytes - sum, limits.strided, &segment);
        sum += segment.length * segment.count;
    }
    return sum;
}

} // namespace kvf
