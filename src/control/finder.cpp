#include "control/finder.h"

#include "base/log.h"
#include "control/bootstrap_address.h"

#include <algorithm>

namespace kvf {
namespace {

bool is_direct(std::string_view prefill) {
    return prefill.starts_with(kTcp) || prefill.starts_with(kUnix);
}

} // namespace

Finder::Finder(const ControlConfig &config, ControlPort &port, Seeks &seeks, Alarm &alarm, ControlCounters &counters,
               Answers &answers)
    : config_(config), port_(port), seeks_(seeks), alarm_(alarm), counters_(counters), answers_(answers) {}

const std::string *Finder::known(const Target &target, uint64_t room_id) const {
    if (is_direct(target.prefill))
        return &target.prefill;
    const auto site = sites_.find(target.prefill);
    if (site == sites_.end() || !site->second.topology || asks_for_room(site->second, target))
        return nullptr;
    const uint32_t sizes = site->second.topology->sizes.dp;
    const auto dp = target.dp_choice == KVF_DP_GIVEN ? target.dp_rank : static_cast<uint32_t>(room_id % sizes);
    const auto rank = site->second.ranks.find(dp);
    return rank != site->second.ranks.end() && !rank->second.address.empty() ? &rank->second.address : nullptr;
}

bool Finder::same_for_all(const Target &target) const {
    if (is_direct(target.prefill))
        return true;
    const auto site = sites_.find(target.prefill);
    return site != sites_.end() && site->second.topology && !asks_for_room(site->second, target) &&
           (target.dp_choice == KVF_DP_GIVEN || site->second.topology->sizes.dp == 1);
}

void Finder::find(Seek &seek, uint64_t now) {
    if (is_direct(seek.target.prefill))
        return answers_.found(seek, seek.target.prefill);
    const std::string &server = seek.target.prefill;
    HostPort checked;
    if (Status status = parse_host_port("prefill", server, &checked); !status.ok())
        return answers_.refused(seek, {status.code(), static_cast<int32_t>(config_.rank), status.sentence()});
    Site &site = sites_[server];
    site.server = server;
    go_on(site, seek, now);
}

// One step for a room: to the topology, then to its dp rank, then to the rank's address.
void Finder::go_on(Site &site, Seek &seek, uint64_t now) {
    if (!site.topology) {
        join(site.inquiry, seek);
        return ask_topology(site);
    }
    if (Status status = check_sizes(site); !status.ok()) {
        site.topology.reset(); // the servers' ranks may be others the next time
        return answers_.refused(seek, {status.code(), static_cast<int32_t>(config_.rank), status.sentence()});
    }
    if (asks_for_room(site, seek.target)) {
        join(site.rooms[seek.room.value], seek);
        return ask_room(site, seek.room.value);
    }
    const uint32_t size = site.topology->sizes.dp;
    want_rank(site, seek,
              seek.target.dp_choice == KVF_DP_GIVEN ? seek.target.dp_rank : static_cast<uint32_t>(seek.room_id % size),
              now);
}

void Finder::want_rank(Site &site, Seek &seek, uint32_t dp, uint64_t) {
    if (dp >= site.topology->sizes.dp) {
        return answers_.refused(seek, {KVF_ERR_INVALID, static_cast<int32_t>(config_.rank),
                                       text("dp rank %u was asked for at %s, which has %u", dp, site.server.c_str(),
                                            site.topology->sizes.dp)});
    }
    Rank &rank = site.ranks[dp];
    if (!rank.address.empty())
        return answers_.found(seek, rank.address);
    join(rank.inquiry, seek);
    ask_rank(site, dp);
}

Status Finder::check_sizes(const Site &site) const {
    const GroupSizes &theirs = site.topology->sizes;
    const auto differ = [&](const char *what, uint32_t ours, uint32_t size) {
        return fail(KVF_ERR_LAYOUT, "%s_size is %u at %s and %u at the prefill side (%s)", what, ours,
                    config_.name.c_str(), size, site.server.c_str());
    };
    if (theirs.tp != config_.tp_size)
        return differ("tp", config_.tp_size, theirs.tp);
    if (theirs.pp != config_.pp_size)
        return differ("pp", config_.pp_size, theirs.pp);
    if (theirs.cp != 1)
        return differ("cp", 1, theirs.cp);
    return {};
}

bool Finder::asks_for_room(const Site &site, const Target &target) const {
    if (site.topology->sizes.dp == 1 || target.dp_choice == KVF_DP_GIVEN)
        return false;
    return target.dp_choice == KVF_DP_ASK || !site.topology->follow_bootstrap_room;
}

// ------------------------------------------------------------------------------------------------------- inquiries

Seek *Finder::join(Inquiry &inquiry, Seek &seek) {
    inquiry.waiting.insert(seek.room.value);
    seek.where = &inquiry.waiting;
    if (!inquiry.why.empty())
        answers_.delayed(seek, inquiry.why);
    return &seek;
}

template <typename Ask>
void Finder::ask(Inquiry &inquiry, Request request, Ask ask) {
    if (inquiry.request != 0 || inquiry.retry_at != kNever)
        return;
    inquiry.request = next_request_;
    next_request_ += 2;
    requests_.emplace(inquiry.request, request);
    ask(inquiry.request);
}

void Finder::ask_topology(Site &site) {
    ask(site.inquiry, {&site, 0, 0}, [&](uint64_t request) { port_.ask_topology(request, site.server); });
}

void Finder::ask_rank(Site &site, uint32_t dp) {
    const RankPlace place{dp, 0, config_.tp_rank, config_.pp_rank};
    ask(site.ranks[dp].inquiry, {&site, dp, 0}, [&](uint64_t request) { port_.ask_rank(request, site.server, place); });
}

void Finder::ask_room(Site &site, uint64_t room) {
    const Seek *seek = waiter(room);
    if (seek == nullptr)
        return;
    ask(site.rooms[room], {&site, 0, room},
        [&](uint64_t request) { port_.ask_dp_rank(request, site.server, seek->room_id); });
}

std::optional<Finder::Request> Finder::take(uint64_t request) {
    const auto it = requests_.find(request);
    if (it == requests_.end())
        return {};
    const Request out = it->second;
    requests_.erase(it);
    return out;
}

Seek *Finder::waiter(uint64_t room) {
    const auto it = seeks_.find(room);
    return it != seeks_.end() ? &it->second : nullptr;
}

void Finder::failed(Site &site, Inquiry &inquiry, const Status &status, uint64_t now) {
    counters_.add(ControlCounter::bootstrap_failures);
    if (!std::exchange(site.complained_of, true))
        log(KVF_LOG_WARN, "%s: no prefill engine found yet by %s, trying again: %s", config_.name.c_str(),
            site.server.c_str(), status.sentence().c_str());
    inquiry.request = 0;
    inquiry.retry_at = now + inquiry.retry.pause();
    alarm_.by(inquiry.retry_at);
    if (inquiry.why == status.sentence())
        return;
    inquiry.why = status.sentence();
    for (const uint64_t room : inquiry.waiting)
        if (Seek *seek = waiter(room))
            answers_.delayed(*seek, inquiry.why);
}

// Those who waited, who wait for nothing now.
Waiting Finder::succeeded(Inquiry &inquiry) {
    inquiry.request = 0;
    inquiry.retry.reset();
    inquiry.why.clear();
    Waiting out = std::exchange(inquiry.waiting, {});
    for (const uint64_t room : out)
        if (Seek *seek = waiter(room))
            seek->where = nullptr;
    return out;
}

void Finder::topology_came(uint64_t request, const Status &status, const Topology &topology, uint64_t now) {
    const auto asked = take(request);
    if (!asked)
        return;
    Site &site = *asked->site;
    if (!status.ok())
        return failed(site, site.inquiry, status, now);
    const Waiting waiting = succeeded(site.inquiry);
    for (const uint64_t room : waiting) {
        site.topology = topology; // a room that it does not suit takes it away
        if (Seek *seek = waiter(room))
            go_on(site, *seek, now);
    }
}

void Finder::rank_came(uint64_t request, const Status &status, const RankAddress &address, uint64_t now) {
    const auto asked = take(request);
    if (!asked)
        return;
    Site &site = *asked->site;
    Rank &rank = site.ranks[asked->dp];
    if (!status.ok()) {
        site.topology.reset(); // it may be another group's by now
        return failed(site, rank.inquiry, status, now);
    }
    site.complained_of = false;
    rank.address = "tcp://" + format_host_port({address.ip, address.port});
    const std::string found = rank.address;
    for (const uint64_t room : succeeded(rank.inquiry))
        if (Seek *seek = waiter(room))
            answers_.found(*seek, found);
}

void Finder::dp_rank_came(uint64_t request, const Status &status, std::optional<uint32_t> dp_rank, uint64_t now) {
    const auto asked = take(request);
    if (!asked)
        return;
    Site &site = *asked->site;
    const auto it = site.rooms.find(asked->room);
    if (it == site.rooms.end())
        return;
    Seek *seek = waiter(asked->room);
    if (seek == nullptr) {
        site.rooms.erase(it);
        return;
    }
    if (!status.ok())
        return failed(site, it->second, status, now);
    if (!dp_rank)
        return failed(site, it->second,
                      fail(KVF_ERR_BOOTSTRAP, "%s was not told which dp rank prefills room %llu", site.server.c_str(),
                           static_cast<unsigned long long>(seek->room_id)),
                      now);
    succeeded(it->second);
    site.rooms.erase(it);
    if (!site.topology) { // forgotten meanwhile: from the start
        join(site.inquiry, *seek);
        return ask_topology(site);
    }
    want_rank(site, *seek, *dp_rank, now);
}

void Finder::forget(const std::string &address) {
    for (auto &[server, site] : sites_)
        for (auto &[dp, rank] : site.ranks)
            if (rank.address == address) {
                rank.address.clear();
                site.topology.reset();
            }
}

// ------------------------------------------------------------------------------------------------------------ time

// Whether to ask again now. When nobody waits, nobody asks.
bool Finder::due(Inquiry &inquiry, uint64_t now) {
    if (inquiry.retry_at == kNever)
        return false;
    if (now < inquiry.retry_at) {
        alarm_.by(inquiry.retry_at);
        return false;
    }
    inquiry.retry_at = kNever;
    return !inquiry.waiting.empty();
}

void Finder::tick_site(Site &site, uint64_t now) {
    if (due(site.inquiry, now))
        ask_topology(site);
    for (auto &[dp, rank] : site.ranks)
        if (due(rank.inquiry, now)) // from the topology on, which may be another one by now
            for (const uint64_t room : std::exchange(rank.inquiry.waiting, {}))
                if (Seek *seek = waiter(room))
                    go_on(site, *seek, now);
    for (auto it = site.rooms.begin(); it != site.rooms.end();) {
        if (due(it->second, now))
            ask_room(site, it->first);
        it = it->second.idle() ? site.rooms.erase(it) : std::next(it);
    }
}

bool Finder::unused(const Site &site) {
    return site.inquiry.idle() && site.inquiry.retry_at == kNever && site.rooms.empty() &&
           std::ranges::all_of(site.ranks, [](const auto &it) {
               return it.second.address.empty() && it.second.inquiry.idle() && it.second.inquiry.retry_at == kNever;
           });
}

void Finder::tick(uint64_t now) {
    for (auto it = sites_.begin(); it != sites_.end();) {
        tick_site(it->second, now);
        it = unused(it->second) ? sites_.erase(it) : std::next(it);
    }
}

} // namespace kvf
