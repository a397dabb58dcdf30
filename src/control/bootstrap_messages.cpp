// The bootstrap server's JSON. The names are SGLang's: its ranks send these bodies and its decode engines read these
// replies, so a field here is renamed only when it is there.
#include "control/bootstrap_messages.h"

#include "control/bootstrap_json.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <charconv>
#include <limits>

namespace kvf {
namespace {

namespace json = boost::json;

constexpr Bounds kSize{1, kMaxRanks};
constexpr Bounds kRank{0, kMaxRanks - 1};
constexpr Bounds kPort{1, 65535};
constexpr Bounds kPageSize{0, std::numeric_limits<int32_t>::max()};
constexpr Bounds kWord{1, 255};
constexpr Bounds kRoom{0, std::numeric_limits<uint64_t>::max()};

// The most bytes of extras that a group may have the server keep and repeat.
constexpr size_t kMaxExtras = 16384;

constexpr const char *kFollow = "follow_bootstrap_room";
constexpr const char *kPolicy = "decode_allocation_policy";
constexpr const char *kSpecLayout = "dsv41_spec_layout";

enum class Kind { word, boolean, port, object };

// Fields of some releases of SGLang, which mean something to its own ranks only.
struct Extra {
    const char *name;
    Kind kind;
};
constexpr Extra kExtras[] = {
    {kPolicy, Kind::word},
    {kSpecLayout, Kind::object},
    {"kv_layout", Kind::word},
    {"enable_kv_cache_sharding", Kind::boolean},
    {"enable_dsa_cache_layer_split", Kind::boolean},
    {"prefill_http_port", Kind::port},
};

struct Axis {
    uint32_t size = 1;
    uint32_t rank = 0;
};

Axis read_axis(JsonFields *fields, const char *size_name, const char *rank_name) {
    const uint64_t size = fields->integer(size_name, kSize);
    const uint64_t rank = fields->integer(rank_name, {0, size - 1});
    return {static_cast<uint32_t>(size), static_cast<uint32_t>(rank)};
}

// Either the engines of the group are replicas of one another (system_dp_size > 1), or the attention layers inside
// one engine are (attn_dp_size), and the other pair says nothing: with attention dp a rank's system_dp_rank repeats
// its attention dp rank beside a system_dp_size of 1.
Axis read_dp_axis(JsonFields *fields) {
    const uint64_t attention_size = fields->integer("attn_dp_size", kSize);
    const uint64_t system_size = fields->integer("system_dp_size", kSize);
    fields->integer("attn_dp_rank", kRank);
    fields->integer("system_dp_rank", kRank);
    const bool attention = system_size == 1;
    const uint64_t size = attention ? attention_size : system_size;
    const uint64_t rank = fields->integer(attention ? "attn_dp_rank" : "system_dp_rank", {0, size - 1});
    return {static_cast<uint32_t>(size), static_cast<uint32_t>(rank)};
}

uint32_t read_page_size(JsonFields *fields) {
    return fields->has("page_size") ? static_cast<uint32_t>(fields->integer("page_size", kPageSize)) : 0;
}

std::string read_dtype(JsonFields *fields) {
    return fields->has("kv_cache_dtype") ? fields->word("kv_cache_dtype", kWord) : std::string();
}

RankAddress read_address(JsonFields *fields) {
    return {fields->word("rank_ip", kWord), static_cast<uint16_t>(fields->integer("rank_port", kPort))};
}

void check_extra(JsonFields *fields, const Extra &extra) {
    switch (extra.kind) {
        case Kind::word:
            fields->word(extra.name, kWord);
            break;
        case Kind::boolean:
            fields->boolean(extra.name);
            break;
        case Kind::port:
            fields->integer(extra.name, kPort);
            break;
        case Kind::object:
            fields->object(extra.name);
            break;
    }
}

void read_extras(JsonFields *fields, const json::object &object, json::object *out) {
    for (const Extra &extra : kExtras) {
        if (!fields->has(extra.name))
            continue;
        check_extra(fields, extra);
        out->insert_or_assign(extra.name, object.at(extra.name));
    }
    // Of the extras only the layout can be long.
    if (fields->status().ok() && json::serialize(*out).size() > kMaxExtras)
        fields->refuse(kSpecLayout, "at most " + std::to_string(kMaxExtras) + " bytes");
}

json::value number_or_null(uint32_t number) {
    return number == 0 ? json::value() : json::value(number);
}

json::value word_or_null(const std::string &word) {
    return word.empty() ? json::value() : json::value(word);
}

std::string unequal(const char *name, const std::string &other, const std::string &known) {
    return std::string(name) + " is " + other + ", but the ranks registered here have " + known;
}

std::string unequal(const char *name, uint32_t other, uint32_t known) {
    return unequal(name, std::to_string(other), std::to_string(known));
}

const json::value &extra_or(const json::object &extras, const char *name, const json::value &fallback) {
    const json::value *value = extras.if_contains(name);
    return value != nullptr ? *value : fallback;
}

bool extras_differ(const json::object &one, const json::object &other, const char *name, const json::value &fallback) {
    return extra_or(one, name, fallback) != extra_or(other, name, fallback);
}

} // namespace

std::string registration_body(const RankRecord &record) {
    const GroupSizes &sizes = record.topology.sizes;
    const RankPlace &place = record.place;
    json::object body{
        {"attn_tp_size", sizes.tp},
        {"attn_tp_rank", place.tp},
        {"attn_cp_size", sizes.cp},
        {"attn_cp_rank", place.cp},
        {"attn_dp_size", sizes.dp},
        {"attn_dp_rank", place.dp},
        {"pp_size", sizes.pp},
        {"pp_rank", place.pp},
        {"system_dp_size", 1},
        {"system_dp_rank", 0},
        {"rank_ip", record.address.ip},
        {"rank_port", record.address.port},
        // Not null for "not said": SGLang's server takes a number only.
        {"page_size", record.topology.page_size},
        {"kv_cache_dtype", word_or_null(record.topology.kv_cache_dtype)},
        {"load_balance_method", record.topology.follow_bootstrap_room ? kFollow : "round_robin"},
    };
    return json::serialize(body);
}

Status read_registration(std::string_view body, RankRegistration *out) {
    json::object object;
    Status status = parse_json_object(body, &object);
    if (!status.ok())
        return status;
    JsonFields fields(object);
    const Axis tp = read_axis(&fields, "attn_tp_size", "attn_tp_rank");
    const Axis cp = read_axis(&fields, "attn_cp_size", "attn_cp_rank");
    const Axis dp = read_dp_axis(&fields);
    const Axis pp = read_axis(&fields, "pp_size", "pp_rank");
    RankRecord &record = out->record;
    record.place = {.dp = dp.rank, .cp = cp.rank, .tp = tp.rank, .pp = pp.rank};
    record.address = read_address(&fields);
    Topology &topology = record.topology;
    topology.sizes = {.dp = dp.size, .cp = cp.size, .tp = tp.size, .pp = pp.size};
    topology.page_size = read_page_size(&fields);
    topology.kv_cache_dtype = read_dtype(&fields);
    topology.follow_bootstrap_room =
        !fields.has("load_balance_method") || fields.word("load_balance_method", kWord) == kFollow;
    read_extras(&fields, object, &out->extras);
    if (fields.status().ok() && topology.sizes.ranks() > kMaxRanks)
        return {KVF_ERR_INVALID, "the sizes make " + std::to_string(topology.sizes.ranks()) +
                                     " ranks; expected at most " + std::to_string(kMaxRanks)};
    return fields.status();
}

std::string registrations_differ(const Topology &known, const json::object &known_extras,
                                 const RankRegistration &other) {
    const Topology &topology = other.record.topology;
    const GroupSizes &sizes = topology.sizes;
    if (sizes.tp != known.sizes.tp)
        return unequal("attn_tp_size", sizes.tp, known.sizes.tp);
    if (sizes.cp != known.sizes.cp)
        return unequal("attn_cp_size", sizes.cp, known.sizes.cp);
    if (sizes.dp != known.sizes.dp)
        return unequal("the dp size", sizes.dp, known.sizes.dp);
    if (sizes.pp != known.sizes.pp)
        return unequal("pp_size", sizes.pp, known.sizes.pp);
    if (topology.page_size != known.page_size)
        return unequal("page_size", topology.page_size, known.page_size);
    if (topology.kv_cache_dtype != known.kv_cache_dtype)
        return unequal("kv_cache_dtype", '\'' + topology.kv_cache_dtype + '\'', '\'' + known.kv_cache_dtype + '\'');
    if (topology.follow_bootstrap_room != known.follow_bootstrap_room)
        return "load_balance_method differs from that of the ranks registered here";
    if (extras_differ(known_extras, other.extras, kPolicy, "early"))
        return std::string(kPolicy) + " differs from that of the ranks registered here";
    if (extras_differ(known_extras, other.extras, kSpecLayout, nullptr))
        return std::string(kSpecLayout) + " differs from that of the ranks registered here";
    return {};
}

std::string topology_body(const Topology &topology, const json::object &extras) {
    // A decode engine of SGLang takes the fields as keyword arguments, so one that its release does not know makes it
    // refuse the reply: beside the fields of every release stand those that the group's own release sent.
    json::object body = extras;
    body["attn_tp_size"] = topology.sizes.tp;
    body["attn_cp_size"] = topology.sizes.cp;
    body["dp_size"] = topology.sizes.dp;
    body["pp_size"] = topology.sizes.pp;
    body["page_size"] = number_or_null(topology.page_size);
    body["kv_cache_dtype"] = word_or_null(topology.kv_cache_dtype);
    body[kFollow] = topology.follow_bootstrap_room;
    return json::serialize(body);
}

Status read_topology(std::string_view body, Topology *out) {
    json::object object;
    Status status = parse_json_object(body, &object);
    if (!status.ok())
        return status;
    JsonFields fields(object);
    out->sizes.tp = static_cast<uint32_t>(fields.integer("attn_tp_size", kSize));
    out->sizes.cp = static_cast<uint32_t>(fields.integer("attn_cp_size", kSize));
    out->sizes.dp = static_cast<uint32_t>(fields.integer("dp_size", kSize));
    out->sizes.pp = static_cast<uint32_t>(fields.integer("pp_size", kSize));
    out->page_size = read_page_size(&fields);
    out->kv_cache_dtype = read_dtype(&fields);
    out->follow_bootstrap_room = fields.boolean(kFollow);
    return fields.status();
}

std::string rank_address_body(const RankAddress &address) {
    return json::serialize(json::object{{"rank_ip", address.ip}, {"rank_port", address.port}});
}

Status read_rank_address(std::string_view body, RankAddress *out) {
    json::object object;
    Status status = parse_json_object(body, &object);
    if (!status.ok())
        return status;
    JsonFields fields(object);
    *out = read_address(&fields);
    return fields.status();
}

std::string room_dp_rank_body(const RoomDpRank &room) {
    return json::serialize(json::object{{"bootstrap_room", room.room_id}, {"dp_rank", room.dp_rank}});
}

Status read_room_dp_rank(std::string_view body, RoomDpRank *out) {
    json::object object;
    Status status = parse_json_object(body, &object);
    if (!status.ok())
        return status;
    JsonFields fields(object);
    out->room_id = fields.integer("bootstrap_room", kRoom);
    out->dp_rank = static_cast<uint32_t>(fields.integer("dp_rank", kRank));
    return fields.status();
}

std::string dp_rank_query_body(const std::vector<uint64_t> &room_ids) {
    json::array rooms;
    rooms.reserve(room_ids.size());
    for (const uint64_t id : room_ids)
        rooms.emplace_back(id);
    return json::serialize(json::object{{"bootstrap_rooms", std::move(rooms)}});
}

Status read_dp_rank_query(std::string_view body, std::vector<uint64_t> *out) {
    json::object object;
    Status status = parse_json_object(body, &object);
    if (!status.ok())
        return status;
    JsonFields fields(object);
    const json::value *rooms = object.if_contains("bootstrap_rooms");
    if (rooms == nullptr || !rooms->is_array()) {
        fields.refuse("bootstrap_rooms", "an array of room ids");
        return fields.status();
    }
    out->reserve(rooms->get_array().size());
    for (const json::value &room : rooms->get_array()) {
        const std::optional<uint64_t> id = json_integer(room);
        if (!id)
            return {KVF_ERR_INVALID, "bootstrap_rooms has the element " + quotable(json::serialize(room), 64) +
                                         "; expected room ids from 0 to 18446744073709551615"};
        out->push_back(*id);
    }
    return {};
}

std::string dp_ranks_body(const std::map<uint64_t, uint32_t> &ranks) {
    json::object body;
    body.reserve(ranks.size());
    for (const auto &[room, rank] : ranks)
        body.emplace(std::to_string(room), rank);
    return json::serialize(body);
}

Status read_dp_ranks(std::string_view body, std::map<uint64_t, uint32_t> *out) {
    json::object object;
    Status status = parse_json_object(body, &object);
    if (!status.ok())
        return status;
    for (const auto &[key, value] : object) {
        uint64_t room = 0;
        const char *end = key.data() + key.size();
        const auto [stop, error] = std::from_chars(key.data(), end, room);
        const std::optional<uint64_t> rank = json_integer(value);
        if (error != std::errc() || stop != end || !rank || *rank > kMaxDpRank)
            return {KVF_ERR_INVALID, "the reply has " + quotable(key, 24) + ": " +
                                         quotable(json::serialize(value), 64) +
                                         "; expected a room id and a rank from 0 to " + std::to_string(kMaxDpRank)};
        out->insert_or_assign(room, static_cast<uint32_t>(*rank));
    }
    return {};
}

} // namespace kvf
