// The benchmarks of `kvferry bench`: what may be asked of each, and the functions that run them. docs/benchmarks.md
// says what their figures mean.
#pragma once

#include <cstdint>
#include <string>

#include "figure.h"

namespace bench {

struct PollOptions {
    bool quick = false; // small, to see that it works: its figures mean nothing
};
void run_poll(const PollOptions &options, Report &report);

struct EnqueueOptions {
    bool quick = false;
    uint32_t shards = 0; // of the engine that sends; 0: as it chooses
};
void run_enqueue(const EnqueueOptions &options, Report &report);

struct RoomsOptions {
    bool quick = false;
    uint32_t shards = 0; // of each engine; 0: as it chooses
    uint32_t in_flight = 256;
};
void run_rooms(const RoomsOptions &options, Report &report);

struct ShmOptions {
    bool quick = false;
    uint32_t pool_mib = 512; // of each pool, which should be many times what the caches hold
};
void run_shm(const ShmOptions &options, Report &report);

struct ServingOptions {
    bool quick = false;
    uint32_t rooms = 2048; // all in flight at the same time
    uint32_t tokens = 8192;
    uint32_t layers = 4;
    uint32_t shards = 0; // of each engine; 0: as it chooses
    uint32_t rounds = 0; // 0: 40 of one room, else 1
    double pool_gib = 0; // a side; 0: 4, or what the machine has to spare
    uint64_t seed = 1;
};
// Throws when a room fails or a page is wrong.
void run_serving(const ServingOptions &options, Report &report);

// What the second process of a benchmark does: the prefill side of the one that is named. parent: the process that
// started it. Returns the exit status.
int run_second_process(const std::string &name, int parent);

} // namespace bench
