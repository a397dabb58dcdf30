// How inputs of fuzz_messages begin their records, for the target and its seeds.
#pragma once

#include <cstdint>

namespace kvf::fuzz {

enum class Step : uint8_t {
    hello, // the stranger says it; the record changes single fields (stranger.h)
    layout,
    regions,
    select,
    ready,
    offer,
    status,
    abort,
    drained,
    heartbeat,
    bye,
    bytes,     // of the stranger, as they are
    damaged,   // [kind], then [place][byte]...
    connect,   // 0: the stranger dials; 1: it takes what the engine dialed
    choose,    // the connection that the stranger speaks on from here
    close,     // it hangs up
    time,      // milliseconds
    room,      // a word of one of the engine's own rooms
    exports,   // the engine's tensors or transports change
    answer,    // of a bootstrap server
    transport, // an operation of the transport fails from here on
    release,   // no shard holds a link
    count
};

} // namespace kvf::fuzz
