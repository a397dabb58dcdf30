#include "report.h"

#include <algorithm>
#include <cinttypes>

namespace llama {

std::string report_line(const Report &report) {
    std::string message = report.message;
    std::replace(message.begin(), message.end(), '\n', ' ');
    return text("report %" PRIu64 " %u %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s",
                report.room_id, report.state, report.code, report.bytes, report.segments, report.opened_ns,
                report.waiting_ns, report.posted_ns, report.landed_ns, report.ended_ns, report.last_chunk_ns,
                report.last_chunk_bytes, report.transport.empty() ? "-" : report.transport.c_str(), message.c_str());
}

Report parse_report(Words &words) {
    Report out;
    out.room_id = words.number<uint64_t>();
    out.state = words.number<uint32_t>();
    out.code = words.number<int32_t>();
    for (uint64_t *value : {&out.bytes, &out.segments, &out.opened_ns, &out.waiting_ns, &out.posted_ns, &out.landed_ns,
                            &out.ended_ns, &out.last_chunk_ns, &out.last_chunk_bytes})
        *value = words.number<uint64_t>();
    out.transport = words.word();
    out.message = words.rest();
    return out;
}

} // namespace llama
