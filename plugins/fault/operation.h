// An operation from the host's post to the completion that the host takes: what was decided about it, and where it is.
#pragma once

#include "instance.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fault {

// When something may go on: both must have been reached.
struct Due {
    uint64_t at_ns = 0;   // CLOCK_MONOTONIC
    uint64_t at_poll = 0; // of the lane's polls

    static constexpr uint64_t kNever = UINT64_MAX;
    bool reached(uint64_t now_ns, uint64_t poll) const { return at_ns <= now_ns && at_poll <= poll; }
};

// Decided once, as the operation is posted.
struct Fate {
    bool fail = false;
    bool never = false;
    bool before = false;      // held before the inner transport has it; else its completion is
    uint64_t delay_ns = 0;    // 0: not held by time
    uint64_t delay_polls = 0; // likewise
    uint64_t late_polls = 0;  // the completion comes so much later, for reordering

    bool holds_before() const { return fail || (before && (never || delay_ns != 0 || delay_polls != 0)); }
    bool holds_after() const { return !holds_before() && (never || delay_ns != 0 || delay_polls != 0); }
};

struct Operation {
    enum class State {
        held,  // the inner transport has none of what is left of it
        inner, // the inner transport is at it
        ended, // its memory is left alone; the completion may still be held
    };

    uint64_t token = 0; // the host's
    Peer *peer = nullptr;
    uint32_t kind = 0; // KVF_OP_…
    Fate fate;
    State state = State::held;
    Due due;            // in held: to be posted; in ended: to be told
    bool early = false; // cancelled or fenced
    // Copied only for an operation that is held before: those from next on are still to be posted.
    std::vector<kvf_segment> segments;
    size_t next = 0;
    size_t posted = 0; // segments that the inner transport is at
    int32_t status = KVF_OK;
    uint64_t bytes = 0;
    std::string message;

    // The end, for whatever reason; told when due says so.
    void end(int32_t with, const char *why, uint64_t now_ns, uint64_t poll);
    // Ends it as cancelled, at once where the inner transport is not at it.
    void end_early();
    // What the inner transport said of the segments it was at.
    void inner_done(const kvf_completion &completion, uint64_t now_ns, uint64_t poll);
};

} // namespace fault
