#include "engine/registrations.h"

#include "control/wire_messages.h"

#include <algorithm>

namespace kvf {
namespace {

struct Placed {
    Tensor tensor;
    uint8_t *base = nullptr;
    uint32_t memory_kind = KVF_MEMORY_HOST;
    uint32_t device = 0;

    uintptr_t begin() const { return reinterpret_cast<uintptr_t>(base); }
    uintptr_t end() const { return begin() + tensor.span(); }
};

bool multiply(uint64_t a, uint64_t b, uint64_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

Status check_shape(const kvf_tensor &in, const std::string &name, Tensor *out) {
    const bool whole =
        in.rows == 0 && in.axis_begin == 0 && in.axis_count == 0 && in.axis_total == 0 && in.unit_bytes == 0;
    out->rows = whole ? 1 : in.rows;
    out->axis_begin = in.axis_begin;
    out->axis_count = whole ? 1 : in.axis_count;
    out->axis_total = whole ? 1 : in.axis_total;
    out->unit_bytes = whole ? in.page_bytes : in.unit_bytes;
    if (out->rows == 0 || out->axis_count == 0 || out->unit_bytes == 0)
        return fail(KVF_ERR_INVALID,
                    "%s: rows %llu, axis_count %llu, unit_bytes %llu; expected none of them 0, or all five "
                    "interval fields 0",
                    name.c_str(), static_cast<unsigned long long>(in.rows),
                    static_cast<unsigned long long>(in.axis_count), static_cast<unsigned long long>(in.unit_bytes));
    uint64_t end = 0;
    if (__builtin_add_overflow(out->axis_begin, out->axis_count, &end) || end > out->axis_total)
        return fail(KVF_ERR_INVALID, "%s: the interval of %llu units from %llu is not within axis_total %llu",
                    name.c_str(), static_cast<unsigned long long>(out->axis_count),
                    static_cast<unsigned long long>(out->axis_begin), static_cast<unsigned long long>(out->axis_total));
    uint64_t bytes = 0;
    if (!multiply(out->rows, out->axis_count, &bytes) || !multiply(bytes, out->unit_bytes, &bytes) ||
        bytes != in.page_bytes)
        return fail(KVF_ERR_INVALID, "%s: page_bytes is %llu; expected rows %llu x axis_count %llu x unit_bytes %llu",
                    name.c_str(), static_cast<unsigned long long>(in.page_bytes),
                    static_cast<unsigned long long>(out->rows), static_cast<unsigned long long>(out->axis_count),
                    static_cast<unsigned long long>(out->unit_bytes));
    return {};
}

Status check_tensor(const kvf_tensor &in, Placed *out) {
    Tensor &tensor = out->tensor;
    tensor.name = {in.group, in.layer, in.part};
    const std::string name = describe(tensor.name);
    if (!in.base)
        return fail(KVF_ERR_EMPTY, "%s: base is NULL", name.c_str());
    if (in.page_count == 0 || in.page_bytes == 0)
        return fail(KVF_ERR_EMPTY, "%s: page_count is %llu and page_bytes %llu; expected both above 0", name.c_str(),
                    static_cast<unsigned long long>(in.page_count), static_cast<unsigned long long>(in.page_bytes));
    if (in.page_count > UINT32_MAX)
        return fail(KVF_ERR_RANGE, "%s: page_count is %llu; page indices have 32 bits", name.c_str(),
                    static_cast<unsigned long long>(in.page_count));
    if (in.memory_kind != KVF_MEMORY_HOST)
        return fail(KVF_ERR_UNSUPPORTED, "%s: memory_kind is %u; expected KVF_MEMORY_HOST (0)", name.c_str(),
                    in.memory_kind);
    tensor.dtype = in.dtype;
    tensor.page_count = in.page_count;
    tensor.page_bytes = in.page_bytes;
    tensor.page_stride = in.page_stride == 0 ? in.page_bytes : in.page_stride;
    if (tensor.page_stride < tensor.page_bytes)
        return fail(KVF_ERR_INVALID, "%s: page_stride %llu is below page_bytes %llu", name.c_str(),
                    static_cast<unsigned long long>(in.page_stride), static_cast<unsigned long long>(in.page_bytes));
    uint64_t span = 0;
    uintptr_t end = 0;
    if (!multiply(tensor.page_count - 1, tensor.page_stride, &span) ||
        __builtin_add_overflow(span, tensor.page_bytes, &span) ||
        __builtin_add_overflow(reinterpret_cast<uintptr_t>(in.base), span, &end))
        return fail(KVF_ERR_RANGE, "%s: %llu pages %llu bytes apart from %p wrap around the address space",
                    name.c_str(), static_cast<unsigned long long>(tensor.page_count),
                    static_cast<unsigned long long>(tensor.page_stride), in.base);
    out->base = static_cast<uint8_t *>(in.base);
    out->memory_kind = in.memory_kind;
    out->device = in.device;
    return check_shape(in, name, &tensor);
}

// Ranges that overlap agree when they are the same pages under two names, or interleave: the same stride, and pages
// that lie beside each other in it.
bool agree(const Placed &a, const Placed &b) {
    const Tensor &x = a.tensor;
    const Tensor &y = b.tensor;
    if (x.page_stride != y.page_stride || a.memory_kind != b.memory_kind || a.device != b.device)
        return false;
    if (a.base == b.base && x.page_bytes == y.page_bytes && x.page_count == y.page_count)
        return true;
    const uint64_t stride = x.page_stride;
    const uint64_t apart = (b.begin() - a.begin()) % stride; // of b's pages behind a's
    return apart >= x.page_bytes && apart + y.page_bytes <= stride;
}

Status check_overlaps(std::vector<Placed> tensors) {
    std::sort(tensors.begin(), tensors.end(), [](const Placed &a, const Placed &b) { return a.begin() < b.begin(); });
    // Those that reach furthest so far overlap what begins before their end.
    std::vector<const Placed *> open;
    for (const Placed &tensor : tensors) {
        std::erase_if(open, [&](const Placed *before) { return before->end() <= tensor.begin(); });
        for (const Placed *before : open)
            if (!agree(*before, tensor))
                return fail(KVF_ERR_OVERLAP,
                            "%s (%p, %llu pages of %llu bytes, stride %llu) and %s (%p, %llu of %llu, stride "
                            "%llu) share memory but not their pages",
                            describe(before->tensor.name).c_str(), static_cast<const void *>(before->base),
                            static_cast<unsigned long long>(before->tensor.page_count),
                            static_cast<unsigned long long>(before->tensor.page_bytes),
                            static_cast<unsigned long long>(before->tensor.page_stride),
                            describe(tensor.tensor.name).c_str(), static_cast<const void *>(tensor.base),
                            static_cast<unsigned long long>(tensor.tensor.page_count),
                            static_cast<unsigned long long>(tensor.tensor.page_bytes),
                            static_cast<unsigned long long>(tensor.tensor.page_stride));
        open.push_back(&tensor);
    }
    return {};
}

bool holds(const MemoryRegion &region, const Placed &tensor) {
    const auto base = reinterpret_cast<uintptr_t>(region.base);
    return region.memory_kind == tensor.memory_kind && region.device == tensor.device && base <= tensor.begin() &&
           tensor.end() <= base + region.length;
}

// A region for every tensor: one that is there, the pool it lies in, or one of its own that grows over neighbours.
void lay(std::vector<Placed> *fresh, const MemoryPools &pools, std::vector<MemoryRegion> *regions) {
    std::sort(fresh->begin(), fresh->end(), [](const Placed &a, const Placed &b) { return a.begin() < b.begin(); });
    const size_t known = regions->size();
    for (Placed &placed : *fresh) {
        const auto found = std::find_if(regions->begin(), regions->end(),
                                        [&](const MemoryRegion &region) { return holds(region, placed); });
        if (found != regions->end())
            continue;
        if (const auto pool = pools.find(placed.base, placed.tensor.span())) {
            regions->push_back({pool->base, pool->length, placed.memory_kind, placed.device, pool->fd, 0});
            continue;
        }
        MemoryRegion *last = regions->size() > known ? &regions->back() : nullptr;
        if (last && last->fd < 0 && last->memory_kind == placed.memory_kind && last->device == placed.device &&
            placed.begin() <= reinterpret_cast<uintptr_t>(last->base) + last->length) {
            last->length = std::max(last->length, placed.end() - reinterpret_cast<uintptr_t>(last->base));
            continue;
        }
        regions->push_back({placed.base, placed.tensor.span(), placed.memory_kind, placed.device, -1, 0});
    }
    for (Placed &placed : *fresh) {
        const auto found = std::find_if(regions->begin(), regions->end(),
                                        [&](const MemoryRegion &region) { return holds(region, placed); });
        placed.tensor.region = static_cast<uint32_t>(found - regions->begin());
        placed.tensor.region_offset = static_cast<uint64_t>(placed.base - found->base);
    }
}

} // namespace

const GroupLimit *GroupLimits::find(uint32_t group) const {
    const auto found = std::lower_bound(groups.begin(), groups.end(), group,
                                        [](const GroupLimit &limit, uint32_t wanted) { return limit.group < wanted; });
    return found != groups.end() && found->group == group ? &*found : nullptr;
}

Status Registrations::add(std::span<const kvf_tensor> tensors, std::shared_ptr<const Layout> *next) const {
    const size_t there = layout_->tensors.size();
    if (tensors.size() > kMostTensors - there)
        return fail(KVF_ERR_INVALID, "%zu tensors beside %zu that are registered; expected at most %zu in all",
                    tensors.size(), there, kMostTensors);
    std::vector<Placed> fresh(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
        Status fits = check_tensor(tensors[i], &fresh[i]);
        if (!fits.ok())
            return fits;
        const uint64_t span = fresh[i].tensor.span();
        if (!pools_.find(fresh[i].base, span) && pools_.touches(fresh[i].base, span))
            return fail(KVF_ERR_RANGE,
                        "%s: its %llu bytes from %p lie in part outside the memory that was allocated there",
                        describe(fresh[i].tensor.name).c_str(), static_cast<unsigned long long>(span),
                        static_cast<const void *>(fresh[i].base));
    }
    std::vector<Placed> all = fresh;
    for (const Tensor &tensor : layout_->tensors) {
        const MemoryRegion &region = layout_->regions[tensor.region];
        all.push_back({tensor, region.base + tensor.region_offset, region.memory_kind, region.device});
    }
    std::sort(all.begin(), all.end(), [](const Placed &a, const Placed &b) { return a.tensor.name < b.tensor.name; });
    const auto twice = std::adjacent_find(
        all.begin(), all.end(), [](const Placed &a, const Placed &b) { return a.tensor.name == b.tensor.name; });
    if (twice != all.end())
        return fail(KVF_ERR_DUPLICATE, "%s is registered twice", describe(twice->tensor.name).c_str());
    Status disjoint = check_overlaps(std::move(all));
    if (!disjoint.ok())
        return disjoint;

    auto layout = std::make_shared<Layout>(*layout_);
    ++layout->version;
    lay(&fresh, pools_, &layout->regions);
    for (const Placed &placed : fresh)
        layout->tensors.push_back(placed.tensor);
    std::sort(layout->tensors.begin(), layout->tensors.end(),
              [](const Tensor &a, const Tensor &b) { return a.name < b.name; });
    *next = std::move(layout);
    return {};
}

bool GroupLimit::has_layer(uint32_t begin, uint32_t count) const {
    const auto first = std::lower_bound(layers.begin(), layers.end(), begin);
    return count == 0 || (first != layers.end() && *first - begin < count);
}

void Registrations::adopt(std::shared_ptr<const Layout> layout) {
    layout_ = std::move(layout);
    auto limits = std::make_unique<GroupLimits>();
    for (const Tensor &tensor : layout_->tensors) {
        if (limits->groups.empty() || limits->groups.back().group != tensor.name.group)
            limits->groups.push_back({tensor.name.group, tensor.page_count, tensor.name, {}});
        GroupLimit &limit = limits->groups.back();
        if (tensor.page_count < limit.pages) {
            limit.pages = tensor.page_count;
            limit.smallest = tensor.name;
        }
        if (limit.layers.empty() || limit.layers.back() != tensor.name.layer)
            limit.layers.push_back(tensor.name.layer);
    }
    limits_.store(limits.get(), std::memory_order_release);
    all_limits_.push_back(std::move(limits));
}

bool Registrations::uses(const void *base, uint64_t length) const {
    const auto begin = reinterpret_cast<uintptr_t>(base);
    return std::any_of(layout_->regions.begin(), layout_->regions.end(), [&](const MemoryRegion &region) {
        const auto at = reinterpret_cast<uintptr_t>(region.base);
        return at < begin + length && begin < at + region.length;
    });
}

} // namespace kvf
