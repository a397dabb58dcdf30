// What goes wrong and how often: "key=value,key=value", and KVF_FAULT_<KEY> where a key is not given.
#pragma once

#include <cstdint>

namespace fault {

struct Range {
    uint64_t least = 0, most = 0; // both included; written "5" or "1-9"
};

// Whether an operation that is held is held before the transport below performs it, or its completion after.
enum class Hold { before, after, either };

// Probabilities are of each call, from 0 to 1.
struct Options {
    uint64_t seed = 1;
    double fail = 0;     // an operation ends as KVF_ERR_TRANSPORT and moves nothing
    double never = 0;    // an operation ends only by cancel or fence, or with its lane
    double truncate = 0; // a post accepts fewer segments than it was given
    double full = 0;     // a post accepts none, while something is in flight
    double reorder = 0;  // a completion is held for a few polls, so that later ones pass it
    double delayed = 1;  // an operation is held as long as the two below say
    Range delay;         // milliseconds
    Range polls;         // polls of the lane: the delay that needs no clock
    Hold hold = Hold::either;
    double connect_fail = 0; // a connect is KVF_ERR_UNREACHABLE
    double import_fail = 0;  // an import of a key is KVF_ERR_TRANSPORT
    double register_fail = 0;
    uint64_t connect_fail_first = 0; // as many connects of the instance fail before any may succeed
    uint64_t fence_busy = 0;         // as many fences of each peer are KVF_ERR_BUSY before one may succeed
};

// KVF_ERR_OPTION: an unknown key or a value that does not parse; the sentence names it.
int read_options(const char *text, Options *options);

} // namespace fault
