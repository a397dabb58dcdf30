// How a room's transfer went on one side, as it is told from an engine to the router.
#pragma once

#include <cstdint>
#include <string>

#include "lines.h"

namespace llama {

// Of kvf_report, but for the last chunk. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a host share;
// 0: never happened.
struct Report {
    uint64_t room_id = 0;
    uint32_t state = 0; // KVF_STATE_…
    int32_t code = 0;   // of a failure
    uint64_t bytes = 0, segments = 0;
    uint64_t opened_ns = 0, waiting_ns = 0, posted_ns = 0, landed_ns = 0, ended_ns = 0;
    // Of the last chunk, as prefill enqueued it: when, and how much.
    uint64_t last_chunk_ns = 0, last_chunk_bytes = 0;
    std::string transport; // without spaces
    std::string message;   // why it failed
};

std::string report_line(const Report &report);

// From the words behind "report".
Report parse_report(Words &words);

} // namespace llama
