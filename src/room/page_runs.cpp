#include "room/page_runs.h"

#include <algorithm>

namespace kvf {

PageRuns::PageRuns(uint32_t group, const std::vector<uint32_t> &pages) : group_(group) {
    for (const uint32_t page : pages)
        append(page, 1);
}

void PageRuns::append(uint32_t first, uint32_t count) {
    highest_ = std::max(highest_, first + (count - 1));
    pages_ += count;
    // In 64 bits: a run may end at the last index.
    if (!runs_.empty() && uint64_t{runs_.back().first} + runs_.back().count == first)
        runs_.back().count += count;
    else
        runs_.push_back({first, count});
}

PageList PageRuns::expand() const {
    PageList out{group_, {}};
    out.pages.reserve(pages_);
    for (const Run &run : runs_)
        for (uint32_t i = 0; i < run.count; ++i)
            out.pages.push_back(run.first + i);
    return out;
}

} // namespace kvf
