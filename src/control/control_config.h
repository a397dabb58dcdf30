// What the control plane of an engine is started with. Already checked and completed: no zero stands for a default.
#pragma once

#include <cstdint>
#include <string>

namespace kvf {

struct ControlConfig {
    uint64_t instance = 0; // random, new at each start; never 0
    uint32_t role = 0;     // KVF_ROLE_…
    std::string name;      // for logs and the peer's sentences
    uint32_t rank = 0;     // global, told as the origin of a failure
    uint32_t tp_rank = 0, tp_size = 1;
    uint32_t pp_rank = 0, pp_size = 1;
    uint32_t dp_rank = 0, dp_size = 1;
    uint32_t page_tokens = 0;   // published, not interpreted; so is the next
    std::string kv_cache_dtype; // "auto"
    std::string listen;         // "tcp://host:port" or "unix:///path"; empty: this engine does not listen
    bool trust_network = false; // it may listen beyond this host
    std::string bootstrap;      // "host:port" of the server to register with; empty: none
    uint32_t shards = 1;
    uint64_t heartbeat_ns = 0;
};

} // namespace kvf
