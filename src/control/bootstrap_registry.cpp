// The routes of the bootstrap server: which request does what, and how it is answered.
#include "control/bootstrap_registry.h"

#include "control/bootstrap_json.h"
#include "control/bootstrap_messages.h"
#include "control/bootstrap_ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kvf {
namespace {

using Reply = BootstrapRegistry::Reply;

constexpr size_t kShownValue = 64;

Reply plain(unsigned status, std::string sentence) {
    Reply reply;
    reply.status = status;
    reply.body = std::move(sentence);
    return reply;
}

Reply json_reply(std::string body) {
    Reply reply;
    reply.body = std::move(body);
    reply.content_type = "application/json; charset=utf-8";
    return reply;
}

Reply refuse_method(std::string_view method, std::string_view path, const char *allow) {
    Reply reply =
        plain(405, quotable(path, kShownValue) + " does not take " + quotable(method, 16) + "; it takes " + allow);
    reply.allow = allow;
    return reply;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

std::string percent_decoded(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
        const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
        if (low >= 0) {
            out += static_cast<char>(high * 16 + low);
            i += 2;
        } else {
            out += text[i];
        }
    }
    return out;
}

std::optional<std::string> parameter(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const size_t end = std::min(query.find('&'), query.size());
        const std::string_view pair = query.substr(0, end);
        query.remove_prefix(std::min(end + 1, query.size()));
        const size_t equals = pair.find('=');
        if (equals != std::string_view::npos && pair.substr(0, equals) == name)
            return percent_decoded(pair.substr(equals + 1));
    }
    return std::nullopt;
}

// A rank asked for: -1, or one that may or may not be in the table.
Status read_rank(std::string_view query, const char *name, int64_t *out) {
    const std::optional<std::string> value = parameter(query, name);
    const char *expected = "; expected a rank, or -1 in all four for the topology";
    if (!value)
        return {KVF_ERR_INVALID, std::string(name) + " is missing" + expected};
    const char *end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, *out);
    if (error != std::errc() || stop != end || *out < -1)
        return {KVF_ERR_INVALID, std::string(name) + " is '" + quotable(*value, kShownValue) + "'" + expected};
    return {};
}

// dp, cp, tp and pp rank.
using AskedRanks = std::array<int64_t, 4>;

Status read_ranks(std::string_view query, AskedRanks *out) {
    constexpr std::array<const char *, 4> names = {"prefill_dp_rank", "prefill_cp_rank", "target_tp_rank",
                                                   "target_pp_rank"};
    for (size_t i = 0; i < names.size(); ++i) {
        Status status = read_rank(query, names[i], &(*out)[i]);
        if (!status.ok())
            return status;
    }
    return {};
}

// None when a rank is one that no table can have.
std::optional<RankPlace> place_of(const AskedRanks &ranks) {
    for (const int64_t rank : ranks) {
        if (rank < 0 || rank >= static_cast<int64_t>(kMaxRanks))
            return std::nullopt;
    }
    return RankPlace{.dp = static_cast<uint32_t>(ranks[0]),
                     .cp = static_cast<uint32_t>(ranks[1]),
                     .tp = static_cast<uint32_t>(ranks[2]),
                     .pp = static_cast<uint32_t>(ranks[3])};
}

} // namespace

BootstrapRegistry::BootstrapRegistry(uint32_t max_rooms)
    : ranks_(std::make_unique<BootstrapRanks>()), rooms_(max_rooms) {}

BootstrapRegistry::~BootstrapRegistry() = default;

BootstrapRegistry::Reply BootstrapRegistry::handle(std::string_view method, std::string_view target,
                                                   std::string_view body) noexcept {
    try {
        const size_t question = target.find('?');
        const std::string_view path = target.substr(0, question);
        const std::string_view query =
            question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
        return route(method, path, query, body);
    } catch (const std::exception &) {
        // Out of memory: a reply that needs none.
        return {500, {}, {}, {}};
    }
}

BootstrapRegistry::Reply BootstrapRegistry::route(std::string_view method, std::string_view path,
                                                  std::string_view query, std::string_view body) {
    const bool get = method == "GET" || method == "HEAD";
    if (path == "/route") {
        if (method == "PUT")
            return put_rank(body);
        return get ? get_route(query) : refuse_method(method, path, "GET, HEAD, PUT");
    }
    if (path == "/register_dp_rank")
        return method == "POST" ? put_room(body) : refuse_method(method, path, "POST");
    if (path == "/query_dp_ranks")
        return method == "POST" ? get_rooms(body) : refuse_method(method, path, "POST");
    if (path == "/health")
        return get ? plain(200, "OK") : refuse_method(method, path, "GET, HEAD");
    return plain(404, "there is no " + quotable(path, kShownValue) + " here");
}

BootstrapRegistry::Reply BootstrapRegistry::put_rank(std::string_view body) {
    RankRegistration registration;
    const Status status = read_registration(body, &registration);
    if (!status.ok())
        return plain(400, status.sentence());
    std::string refusal = ranks_->add(std::move(registration));
    return refusal.empty() ? plain(200, "OK") : plain(400, std::move(refusal));
}

BootstrapRegistry::Reply BootstrapRegistry::get_route(std::string_view query) const {
    AskedRanks asked{};
    const Status status = read_ranks(query, &asked);
    if (!status.ok())
        return plain(400, status.sentence());
    if (!ranks_->complete())
        return plain(503, "not all ranks have registered: " + ranks_->missing());
    if (asked == AskedRanks{-1, -1, -1, -1})
        return json_reply(ranks_->topology_reply());
    const std::optional<RankPlace> place = place_of(asked);
    const RankAddress *address = place ? ranks_->find(*place) : nullptr;
    if (address == nullptr)
        return plain(404, "no rank is registered with " + format_ranks(asked));
    return json_reply(rank_address_body(*address));
}

BootstrapRegistry::Reply BootstrapRegistry::put_room(std::string_view body) {
    RoomDpRank room;
    const Status status = read_room_dp_rank(body, &room);
    if (!status.ok())
        return plain(400, status.sentence());
    rooms_.put(room.room_id, room.dp_rank);
    return plain(200, "OK");
}

BootstrapRegistry::Reply BootstrapRegistry::get_rooms(std::string_view body) const {
    std::vector<uint64_t> asked;
    const Status status = read_dp_rank_query(body, &asked);
    if (!status.ok())
        return plain(400, status.sentence());
    std::map<uint64_t, uint32_t> known;
    for (const uint64_t room_id : asked) {
        const std::optional<uint32_t> dp_rank = rooms_.find(room_id);
        if (dp_rank)
            known.emplace(room_id, *dp_rank);
    }
    return json_reply(dp_ranks_body(known));
}

} // namespace kvf
