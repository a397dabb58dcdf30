#include "show.h"

#include <algorithm>
#include <cinttypes>
#include <limits>

namespace llama {
namespace {

std::string trimmed(const std::string &text) {
    const size_t first = text.find_first_not_of(" \n");
    return first == std::string::npos ? std::string() : text.substr(first, text.find_last_not_of(" \n") - first + 1);
}

std::string verdict(const Row &row) {
    if (const std::string failure = row.outcome.failure(); !failure.empty())
        return "FAILED: " + failure;
    if (row.answer != row.truth)
        return "WRONG: it is " + trimmed(row.truth);
    return row.difference.empty() ? "✓" : "DIFFERS: " + row.difference;
}

// The first thing that happened to any room.
uint64_t first_time(const std::vector<Row> &rows) {
    uint64_t first = std::numeric_limits<uint64_t>::max();
    for (const Row &row : rows) {
        for (const auto &report : {row.outcome.prefill, row.outcome.decode}) {
            if (report && report->opened_ns != 0)
                first = std::min(first, report->opened_ns);
        }
    }
    return first;
}

std::string since(uint64_t first, uint64_t time) {
    return time == 0 ? "-" : text("%.1f", static_cast<double>(time - first) / 1e6);
}

void show_side(std::FILE *out, uint64_t first, const std::optional<Report> &report) {
    const Report side = report.value_or(Report{});
    std::fprintf(out, " |%7s%7s%7s%7s", since(first, side.opened_ns).c_str(), since(first, side.waiting_ns).c_str(),
                 since(first, side.posted_ns).c_str(), since(first, side.ended_ns).c_str());
}

// From when the last chunk was enqueued, or the room could begin if that was later, until it had landed. Between the
// first chunk and the last one a room mostly waits for its prompt to be computed.
std::optional<uint64_t> last_chunk_time(const Report &prefill) {
    const uint64_t begin = std::max(prefill.last_chunk_ns, prefill.waiting_ns);
    if (prefill.last_chunk_ns == 0 || prefill.landed_ns <= begin)
        return std::nullopt;
    return prefill.landed_ns - begin;
}

void show_last_chunk(std::FILE *out, const Report &prefill) {
    const std::optional<uint64_t> time = last_chunk_time(prefill);
    if (!time) {
        std::fprintf(out, "       -     -      -");
        return;
    }
    const auto bytes = static_cast<double>(prefill.last_chunk_bytes), nanoseconds = static_cast<double>(*time);
    std::fprintf(out, "%8.1f%6.0f%7.2f", bytes / 1024, nanoseconds / 1000, bytes / nanoseconds);
}

} // namespace

void show_answers(std::FILE *out, const std::vector<Row> &rows) {
    for (const Row &row : rows)
        std::fprintf(out, "room %3" PRIu64 "  %-28s%-18s%s\n", row.outcome.room_id, row.question.c_str(),
                     trimmed(row.answer).c_str(), verdict(row).c_str());
}

void show_rooms(std::FILE *out, const std::vector<Row> &rows) {
    const uint64_t first = first_time(rows);
    std::fprintf(out,
                 "\n                         | prefill entered, ms        | decode entered, ms         | sent        "
                 " | last chunk\n"
                 "room tokens pages chunks |  boot  waits  moves    end |  boot  waits  moves    end |    KiB  segs"
                 " |    KiB    us   GB/s  transport\n");
    for (const Row &row : rows) {
        const Outcome &room = row.outcome;
        const Report sent = room.prefill.value_or(Report{});
        std::fprintf(out, "%4" PRIu64 "%7zu%6u%7u", room.room_id, row.prompt_tokens, pages_for(row.prompt_tokens),
                     room.chunks);
        show_side(out, first, room.prefill);
        show_side(out, first, room.decode);
        std::fprintf(out, " |%7.1f%6" PRIu64 " |", static_cast<double>(sent.bytes) / 1024, sent.segments);
        show_last_chunk(out, sent);
        std::fprintf(out, "  %s\n", sent.transport.c_str());
    }
    std::fprintf(
        out,
        "boot: Bootstrapping, waits: WaitingForInput, moves: Transferring, end: Success or Failed; last chunk: from "
        "enqueued to landed\n");
}

} // namespace llama
