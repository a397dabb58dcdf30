// What a bootstrap server is told and asked: a rank's place in its group of prefill ranks, the group's shape, and
// the address that a decode rank dials.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace kvf {

// A rank of a prefill group: data-parallel, context-parallel, tensor-parallel and pipeline rank.
struct RankPlace {
    uint32_t dp = 0;
    uint32_t cp = 0;
    uint32_t tp = 0;
    uint32_t pp = 0;

    auto operator<=>(const RankPlace &) const = default;
};

// How many ranks there are along each of the four; each at least 1.
struct GroupSizes {
    uint32_t dp = 1;
    uint32_t cp = 1;
    uint32_t tp = 1;
    uint32_t pp = 1;

    bool operator==(const GroupSizes &) const = default;
    uint64_t ranks() const { return uint64_t{dp} * cp * tp * pp; }
};

// The most ranks of one group, and so the largest size along any of the four.
constexpr uint64_t kMaxRanks = 65536;

// What all ranks of a group agree on.
struct Topology {
    GroupSizes sizes;
    uint32_t page_size = 0;            // tokens; 0: not said
    std::string kv_cache_dtype;        // as SGLang names it; "": not said
    bool follow_bootstrap_room = true; // a room's dp rank is its id modulo sizes.dp, else it is asked for

    bool operator==(const Topology &) const = default;
};

struct RankAddress {
    std::string ip;
    uint16_t port = 0;

    bool operator==(const RankAddress &) const = default;
};

// What a prefill rank registers.
struct RankRecord {
    RankPlace place;
    RankAddress address;
    Topology topology;
};

} // namespace kvf
