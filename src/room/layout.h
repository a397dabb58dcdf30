// What an engine has registered: tensors, and the regions of memory that they lie in. A layout is immutable; a new
// registration makes a new version of it.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvf {

struct TensorName {
    uint32_t group = 0, layer = 0, part = 0;
    auto operator<=>(const TensorName &) const = default;
};

// "tensor (group 0, layer 3, part 1)", for sentences.
std::string describe(const TensorName &name);

// One tensor, as both sides tell each other. page_bytes == rows * axis_count * unit_bytes.
struct Tensor {
    TensorName name;
    uint32_t dtype = 0;
    uint64_t page_count = 0;
    uint64_t page_bytes = 0;
    uint64_t page_stride = 0;
    uint64_t rows = 1;
    uint64_t axis_begin = 0, axis_count = 1, axis_total = 1;
    uint64_t unit_bytes = 0;
    uint32_t region = 0;        // index into the layout's regions
    uint64_t region_offset = 0; // of page 0 in that region

    uint64_t span() const { return (page_count - 1) * page_stride + page_bytes; }
};

// A stretch of local memory that every transport registers once.
struct MemoryRegion {
    uint8_t *base = nullptr;
    uint64_t length = 0;
    uint32_t memory_kind = KVF_MEMORY_HOST;
    uint32_t device = 0;
    int fd = -1; // backing memfd or dma-buf, not owned
    uint64_t fd_offset = 0;
};

struct Layout {
    uint64_t version = 0;
    std::vector<Tensor> tensors;       // sorted by name
    std::vector<MemoryRegion> regions; // empty in a peer's layout; index == that of its keys
};

// KVF_ERR_LAYOUT with the first field that differs and both values. Both sides must name the same tensors with the
// same dtype and page shape; page counts, strides and placement are each side's own.
Status compare_layouts(const Layout &ours, const std::string &our_name, const Layout &theirs,
                       const std::string &their_name);

} // namespace kvf
