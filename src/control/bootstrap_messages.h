// The JSON that ranks, decode engines and the bootstrap server exchange, with SGLang's field names: written and read
// here, and nowhere else. Reading checks types and ranges; a refusal is KVF_ERR_INVALID and names the field.
#pragma once

#include "base/status.h"
#include "control/bootstrap_types.h"

#include <boost/json/object.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvf {

constexpr uint32_t kMaxDpRank = kMaxRanks - 1;

// What the server reads of a registration.
struct RankRegistration {
    RankRecord record;
    // Fields that the server repeats to decode engines without a use for them, as far as the rank sent them.
    boost::json::object extras;
};

// PUT /route
std::string registration_body(const RankRecord &record);
Status read_registration(std::string_view body, RankRegistration *out);

// "" when two registrations can be of one group, else which field differs and how.
std::string registrations_differ(const Topology &known, const boost::json::object &known_extras,
                                 const RankRegistration &other);

// Replies to GET /route
std::string topology_body(const Topology &topology, const boost::json::object &extras);
Status read_topology(std::string_view body, Topology *out);
std::string rank_address_body(const RankAddress &address);
Status read_rank_address(std::string_view body, RankAddress *out);

// POST /register_dp_rank
struct RoomDpRank {
    uint64_t room_id = 0;
    uint32_t dp_rank = 0;
};
std::string room_dp_rank_body(const RoomDpRank &room);
Status read_room_dp_rank(std::string_view body, RoomDpRank *out);

// POST /query_dp_ranks, and its reply: the rooms that the server knows, by id
std::string dp_rank_query_body(const std::vector<uint64_t> &room_ids);
Status read_dp_rank_query(std::string_view body, std::vector<uint64_t> *out);
std::string dp_ranks_body(const std::map<uint64_t, uint32_t> &ranks);
Status read_dp_ranks(std::string_view body, std::map<uint64_t, uint32_t> *out);

} // namespace kvf
