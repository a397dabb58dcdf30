// How inputs of fuzz_shard begin their records, for the target and its seeds.
#pragma once

#include <cstdint>

namespace kvf::fuzz {

enum class Act : uint8_t {
    open_sender,   // [id][receivers - 1]
    send,          // [id][last][layer][layers] and page lists
    end_sender,    // [id][how]
    open_receiver, // [peer][id]
    accept,        // [peer][id] and page lists
    end_receiver,  // [peer][id][how]
    offer,         // of a peer, that says what it likes: [peer][id][token][prefix] and runs of pages
    abort,         // [peer][id][token][offered]
    news,          // to a peer's receivers: [peer][id][token][kind][drained]
    drained,       // [peer][id][token][instance]
    answer,        // to a seek: [peer][id][what]
    carry,         // what was said gets where it should
    drop,          // it gets lost
    advance,       // [turns]
    time,          // [seconds]
    lose,          // [peer]: its connection, and there is a new one
    count
};

} // namespace kvf::fuzz
