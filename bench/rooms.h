// The two halves of the benchmark of rooms, which share its page.
#pragma once

#include "benchmarks.h"

namespace bench {

constexpr size_t kRoomPageBytes = 64 << 10;

// How many rooms one process can open, move and close on both sides.
void measure_room_rate(const RoomsOptions &options, Report &report);

// How long one room takes between two processes.
void measure_room_latency(const RoomsOptions &options, Report &report);

} // namespace bench
