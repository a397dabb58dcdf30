// A transport that moves nothing: what it was asked, and failures where a test wants them.
#pragma once

#include "plugin/transport.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace kvf::test {

// Counters are atomic: a test's engines may have threads of their own. The failures are set while none runs.
struct FakeTransports {
    // (instance id, operation) -> the status that it returns instead of working.
    std::map<std::pair<uint64_t, std::string>, int> failures;
    std::atomic<int> peers = 0, keys = 0;     // alive
    std::atomic<int> imports = 0, fences = 0; // so far

    void reset() {
        failures.clear();
        peers = keys = imports = fences = 0;
    }
};

// Of the process; tests reset it.
FakeTransports &fake();

// name: "fake" or "other".
std::shared_ptr<Transport> open_fake(const std::string &name, uint64_t instance_id);

} // namespace kvf::test
