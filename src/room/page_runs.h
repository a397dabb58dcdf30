// The pages of one group as runs of neighbouring indices, in order: how they wait and travel. A few bytes may name
// millions of pages, so what comes from a peer stays like this until a room has a use for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvf {

struct PageList {
    uint32_t group = 0;
    std::vector<uint32_t> pages;
};

class PageRuns {
  public:
    struct Run {
        uint32_t first = 0, count = 0;
        bool operator==(const Run &) const = default;
    };

    PageRuns() = default;
    PageRuns(uint32_t group, const std::vector<uint32_t> &pages);

    // count neighbours from first on, at least one; none beyond the last index there is.
    void append(uint32_t first, uint32_t count);

    uint32_t group() const { return group_; }
    const std::vector<Run> &runs() const { return runs_; }
    uint64_t pages() const { return pages_; }
    // The largest index, 0 when there are none.
    uint32_t highest() const { return highest_; }
    size_t bytes() const { return runs_.capacity() * sizeof(Run); }

    PageList expand() const;

    bool operator==(const PageRuns &) const = default;

  private:
    uint32_t group_ = 0;
    uint32_t highest_ = 0;
    uint64_t pages_ = 0;
    std::vector<Run> runs_;
};

} // namespace kvf
