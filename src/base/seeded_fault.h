// Faults for the simulator's own test, which switches them on one at a time and wants each found. They are in the core
// that is built with KVF_SEEDED_FAULTS for that test; in every other build seeded() is the constant false, and nothing
// of them is left.
#pragma once

namespace kvf {

// Name, and the promise that it breaks.
#define KVF_SEEDED_FAULT_LIST(X)                                                                        \
    X(stale_handle_is_taken, "a handle of an earlier generation reaches the room that has its slot")    \
    X(claims_outlive_their_room, "a slot's next room cannot be accepted")                               \
    X(failed_is_quiesced, "a room that fails in the middle says at once that its pages are free")       \
    X(later_cause_wins, "a room that has ended ends again")                                             \
    X(deadline_is_forgotten, "a deadline does not end the wait")                                        \
    X(abort_is_not_sent, "a receiver that gives up tells nobody")                                       \
    X(abort_leaves_the_offer, "an offer whose receiver gave up is taken")                               \
    X(drained_too_early, "a sender says that nothing is in flight while something is")                  \
    X(success_too_early, "a sender tells of success when the last batch is posted, not when it landed") \
    X(last_chunk_is_not_awaited, "a sender is done whenever nothing is left to post")                   \
    X(chunk_fence_is_ignored, "pages are read before they are computed")                                \
    X(partial_post_is_whole, "what a post did not take is never posted")                                \
    X(credits_are_lost, "an operation of one segment keeps its share of the window")                    \
    X(lost_is_quiesced, "a lost connection is taken for a fence")                                       \
    X(lost_is_not_settled, "nobody asks again after a lost connection")                                 \
    X(any_instance_settles, "a restarted engine answers for the one before it")                         \
    X(lost_connection_stays, "an offer in a connection that its peer lost is taken after the answer")

enum class SeededFault : int {
    none,
#define KVF_SEEDED_FAULT_ENUM(name, what) name,
    KVF_SEEDED_FAULT_LIST(KVF_SEEDED_FAULT_ENUM)
#undef KVF_SEEDED_FAULT_ENUM
};

#ifdef KVF_SEEDED_FAULTS
extern SeededFault g_seeded_fault; // one thread
inline bool seeded(SeededFault fault) {
    return g_seeded_fault == fault;
}
#else
constexpr bool seeded(SeededFault) {
    return false;
}
#endif

} // namespace kvf
