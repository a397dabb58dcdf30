// One engine's use of the transport: who it is and what it may do.
#pragma once

#include "blob.h"
#include "cookie.h"
#include "counters.h"
#include "options.h"
#include "process.h"

#include <kvferry/plugin.h>

#include <memory>

struct kvf_instance final {
    static shm::Status open(const kvf_open_params &params, std::unique_ptr<kvf_instance> &instance);

    shm::Address address() const;
    int read_counters(kvf_counter *list, size_t capacity) const;

    shm::Options options;
    uint64_t id = 0; // of the engine
    shm::ProcessId self;
    shm::Cookie cookie;
    shm::Counters counters;
};
