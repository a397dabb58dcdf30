// The planner: which bytes of a chunk go where. One idea for every parallel layout: what two ranks exchange of a page
// is the intersection of the intervals that they hold of its axis. Runs of neighbouring pages become one piece.
#pragma once

#include "room/link.h"
#include "room/messages.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvf {

// Fills what a route takes from the two shapes: the offsets of the first piece within page 0 of each tensor, pieces and
// strides. False when the intervals do not meet. Both tensors have the same rows, unit_bytes and axis_total.
bool route_tensor(const Tensor &local, const Tensor &remote, TensorRoute *route);

// Neighbouring pages on both sides.
struct PageRun {
    uint32_t local = 0, remote = 0, count = 0;
};

// Appends the runs of local[i] -> remote[i] to runs, merged.
void append_runs(std::span<const uint32_t> local, std::span<const uint32_t> remote, std::vector<PageRun> *runs);

// What the transport takes in one post.
struct BatchLimits {
    uint32_t segments = 256;
    uint64_t bytes = 1 << 20; // soft: a batch holds at least one piece
    bool strided = false;     // segments may have count > 1
};

// A chunk's copies to one receiver, made piece by piece in batches. Holds the runs of pages and a place in them, never
// the segments themselves.
class CopyPlan {
  public:
    // Adds a group's pages for the layers [layer_begin, layer_begin + layer_count), all when the count is 0. The route
    // is not owned and must outlive the plan; local and remote are of one length.
    void add(const GroupRoute &route, uint32_t layer_begin, uint32_t layer_count, std::span<const uint32_t> local,
             std::span<const uint32_t> remote);

    bool done() const { return place_.group == groups_.size(); }

    // Writes the next segments to `out`, at most out.size() and limits.segments, and moves on; returns how many, and
    // their bytes.
    uint32_t next(std::span<kvf_segment> out, const BatchLimits &limits, uint64_t *bytes);

    // Moves back to behind the first `segments` of what the last next() gave, with the same limits; returns the bytes
    // of those.
    uint64_t keep(uint32_t segments, const BatchLimits &limits);

  private:
    struct GroupCopies {
        std::span<const TensorRoute> tensors;
        std::vector<PageRun> runs;
    };
    struct Place {
        size_t group = 0;
        size_t tensor = 0;
        size_t run = 0;
        uint32_t page = 0; // within the run
        uint64_t row = 0;  // within the page, where rows go one by one
    };

    // Makes the segment at `place` and moves it on; at most `bytes` long where pages can be split off.
    void step(Place *place, uint64_t bytes, bool strided, kvf_segment *segment) const;

    std::vector<GroupCopies> groups_;
    Place place_;
    Place before_; // the place as the last next() found it
};

} // namespace kvf
