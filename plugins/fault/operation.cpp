// The steps of an operation.
#include "operation.h"

#include <new>

namespace fault {

void Operation::end(int32_t with, const char *why, uint64_t now_ns, uint64_t poll) {
    state = State::ended;
    status = with;
    try {
        message = why != nullptr ? why : "";
    } catch (const std::bad_alloc &) {
        message.clear(); // the completion counts, its text may go
    }
    due = {};
    if (early) {
        if (fate.holds_after() && status == KVF_OK)
            status = KVF_ERR_CANCELLED;
        return;
    }
    due.at_poll = poll + fate.late_polls;
    if (fate.holds_after()) {
        due.at_ns = fate.never ? Due::kNever : now_ns + fate.delay_ns;
        due.at_poll += fate.delay_polls;
    }
}

void Operation::end_early() {
    if (early)
        return;
    early = true;
    if (state == State::inner)
        return;
    // A completion that is due but not taken yet keeps its outcome only when it is a failure.
    if (state == State::held || status == KVF_OK) {
        status = KVF_ERR_CANCELLED;
        message.clear();
    }
    state = State::ended;
    due = {};
}

void Operation::inner_done(const kvf_completion &completion, uint64_t now_ns, uint64_t poll) {
    bytes += completion.bytes;
    next += posted;
    posted = 0;
    if (completion.status != KVF_OK || next >= segments.size()) {
        end(completion.status, completion.message, now_ns, poll);
    } else if (early) {
        end(KVF_ERR_CANCELLED, nullptr, now_ns, poll);
    } else {
        state = State::held; // the rest of it
        due = {};
    }
}

} // namespace fault
