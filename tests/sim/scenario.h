// One run: engines, a stream of requests with their callers' whims, and the faults of its seed; and, in the end, that
// all came to an end.
#pragma once

#include "model.h"

#include <string>

namespace kvf::sim {

struct Outcome {
    uint64_t rooms = 0, successes = 0, failures = 0, violations = 0;
    std::string first_violation;
    std::map<int, uint64_t> codes;
};

struct ScenarioOptions {
    uint32_t requests = 50;
    bool traced = false;
    bool stormy = false; // connections and engines break often, in every seed
};

Outcome run_seed(uint64_t seed, const ScenarioOptions &options);

} // namespace kvf::sim
