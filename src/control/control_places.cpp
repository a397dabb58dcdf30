// From rooms that seek their peer to sessions: one connection for each control address, shared by all rooms.
#include "control/control.h"

#include "base/log.h"

#include <utility>

namespace kvf {
namespace {

// For rooms that are gone a peer is still sought so long, and for so many, to tell it.
constexpr uint64_t kGoneKept = 10'000 * kNanosPerMilli;
constexpr size_t kMostGone = 1024;

// Trying again would change nothing.
bool is_final(int code) {
    return code == KVF_ERR_INVALID || code == KVF_ERR_UNSUPPORTED;
}

} // namespace

Seek *Control::waiter(uint64_t room) {
    const auto it = seeks_.find(room);
    return it != seeks_.end() ? &it->second : nullptr;
}

void Control::on(SeekPeer &&message) {
    const uint64_t key = message.room.value;
    if (closing_)
        return to_room(message.room_id, PeerRefused{message.room, *closing_});
    forget_gone(message.room_id, message.target);
    const std::string *address = finder_.known(message.target, message.room_id);
    if (address != nullptr) {
        const auto place = places_.find(*address);
        const Connection *connection = place != places_.end() ? find(place->second.connection) : nullptr;
        if (connection != nullptr && connection->link)
            return to_room(message.room_id, PeerFound{message.room, connection->link,
                                                      finder_.same_for_all(message.target), message.room_id});
    }
    const auto [it, fresh] = seeks_.try_emplace(key);
    if (!fresh)
        return;
    Seek &seek = it->second;
    seek.room = message.room;
    seek.room_id = message.room_id;
    seek.target = std::move(message.target);
    finder_.find(seek, now_);
}

void Control::on(ForgetPeer &&message) {
    forget_settle(message.room.value);
    const auto it = seeks_.find(message.room.value);
    if (it == seeks_.end())
        return;
    Seek &seek = it->second;
    if (!message.told || closing_)
        return drop(seek);
    seek.gone = std::move(message.cause);
    const auto place = seek.address != nullptr ? places_.find(*seek.address) : places_.end();
    Connection *connection = place != places_.end() ? find(place->second.connection) : nullptr;
    if (connection != nullptr && tell_gone(*connection, seek))
        return;
    if (gone_.size() >= kMostGone)
        return drop(seek);
    gone_[{seek.room_id, seek.target}] = seek.room.value;
    seek.gone_until = now_ + kGoneKept;
    alarm_.by(seek.gone_until);
}

// ---------------------------------------------------------------------------------------------- rooms that are gone

void Control::drop(Seek &seek) {
    if (seek.where != nullptr)
        seek.where->erase(seek.room.value);
    if (seek.gone)
        gone_.erase({seek.room_id, seek.target});
    seeks_.erase(seek.room.value);
}

// Tells the sender of a room that is gone, on whatever connection its engine has said HELLO on.
bool Control::tell_gone(Connection &connection, Seek &seek) {
    if (!seek.gone || !connection.session || !connection.session->greeted())
        return false;
    counters_.add(ControlCounter::aborts_sent);
    (void)send(connection.id, AbortMessage{seek.room_id, seek.room.value, false, std::move(*seek.gone), 0});
    drop(seek);
    return true;
}

// The id is in use again: what is still to be told of it would be taken for the new room's.
void Control::forget_gone(uint64_t room_id, const Target &target) {
    const auto it = gone_.find({room_id, target});
    if (it != gone_.end())
        drop(seeks_.find(it->second)->second);
}

void Control::tick_gone() {
    for (auto it = gone_.begin(); it != gone_.end();) {
        Seek &seek = seeks_.find((it++)->second)->second;
        if (seek.gone_until <= now_)
            drop(seek);
        else
            alarm_.by(seek.gone_until);
    }
}

// ----------------------------------------------------------------------------------------------------------- answers

void Control::found(Seek &seek, const std::string &address) {
    join(place_of(address), seek);
}

void Control::delayed(Seek &seek, const std::string &why) {
    if (seek.gone || seek.told == why)
        return;
    seek.told = why;
    to_room(seek.room_id, PeerDelayed{seek.room, why});
}

void Control::refused(Seek &seek, Cause cause) {
    if (!seek.gone)
        to_room(seek.room_id, PeerRefused{seek.room, std::move(cause)});
    drop(seek);
}

void Control::answer(Seek &seek, const LinkRef &link) {
    to_room(seek.room_id, PeerFound{seek.room, link, finder_.same_for_all(seek.target), seek.room_id});
    drop(seek);
}

// The room's sender at the peer is told too, so that both sides' rooms fail for the same reason.
void Control::refuse_at(Connection &connection, Seek &seek) {
    const Cause &cause = connection.session->refusal();
    counters_.add(ControlCounter::aborts_sent);
    (void)send(connection.id, AbortMessage{seek.room_id, seek.room.value, false, cause, 0});
    refused(seek, cause);
}

// ------------------------------------------------------------------------------------------------------------- places

Control::Place &Control::place_of(const std::string &address) {
    Place &place = places_[address];
    place.address = address;
    return place;
}

void Control::join(Place &place, Seek &seek) {
    Connection *connection = find(place.connection);
    if (connection != nullptr && tell_gone(*connection, seek))
        return;
    if (connection != nullptr && connection->link)
        return answer(seek, connection->link);
    if (connection != nullptr && connection->session && connection->session->state() == Session::State::refused) {
        if (!connection->session->worth_another_try())
            return refuse_at(*connection, seek);
        finish(*connection,
               fail(KVF_ERR_PEER_CLOSED, "%s begins anew with other tensors or transports", config_.name.c_str()),
               true);
    }
    place.waiting.insert(seek.room.value);
    seek.where = &place.waiting;
    seek.address = &place.address;
    if (!place.why.empty())
        delayed(seek, place.why);
    if (place.connection == 0 && place.retry_at == kNever)
        dial(place);
}

void Control::dial(Place &place) {
    Connection &connection = add_connection(next_connection_++);
    counters_.add(ControlCounter::connections_dialed);
    connection.place = &place;
    connection.dial_by = now_ + kDialDeadline;
    place.connection = connection.id;
    alarm_.by(connection.dial_by);
    port_.dial(connection.id, place.address);
}

void Control::seek_again(Waiting &&rooms) {
    for (const uint64_t room : rooms) {
        Seek *seek = waiter(room);
        if (seek == nullptr)
            continue;
        seek->where = nullptr;
        seek->address = nullptr;
        finder_.find(*seek, now_);
    }
}

void Control::delay(Place &place, const std::string &why) {
    if (place.why == why)
        return;
    place.why = why;
    for (const uint64_t room : place.waiting)
        if (Seek *seek = waiter(room))
            delayed(*seek, why);
}

void Control::greeted(Connection &connection) {
    if (connection.place == nullptr)
        return;
    if (!gone_.empty())
        for (const uint64_t room : Waiting(connection.place->waiting))
            if (Seek *seek = waiter(room))
                (void)tell_gone(connection, *seek);
    settle_on(connection);
}

void Control::place_ready(Connection &connection) {
    Place *place = connection.place;
    if (place == nullptr)
        return;
    place->why.clear();
    place->retry.reset();
    for (const uint64_t room : std::exchange(place->waiting, {}))
        if (Seek *seek = waiter(room))
            answer(*seek, connection.link);
}

void Control::place_refused(Connection &connection) {
    Place *place = connection.place;
    if (place == nullptr)
        return;
    place->why.clear();
    for (const uint64_t room : std::exchange(place->waiting, {}))
        if (Seek *seek = waiter(room))
            refuse_at(connection, *seek);
}

// Its connection is gone, or is not for new rooms any more.
void Control::place_lost(Place &place, const Status &why) {
    place.connection = 0;
    finder_.forget(place.address);
    alarm_.by(now_);
    if (is_final(why.code())) {
        place.why.clear();
        forget_settles(place);
        for (const uint64_t room : std::exchange(place.waiting, {}))
            if (Seek *seek = waiter(room))
                refused(*seek, {why.code(), static_cast<int32_t>(config_.rank), why.sentence()});
        return;
    }
    if (place.waiting.empty() && place.settling.empty()) {
        place.why.clear();
        return;
    }
    delay(place, why.sentence());
    place.retry_at = now_ + place.retry.pause();
    alarm_.by(place.retry_at);
}

void Control::topology_came(uint64_t request, const Status &status, const Topology &topology) {
    finder_.topology_came(request, status, topology, now_);
    update_gauges();
}

void Control::rank_came(uint64_t request, const Status &status, const RankAddress &address) {
    finder_.rank_came(request, status, address, now_);
    update_gauges();
}

void Control::dp_rank_came(uint64_t request, const Status &status, std::optional<uint32_t> dp_rank) {
    finder_.dp_rank_came(request, status, dp_rank, now_);
    update_gauges();
}

void Control::registered(uint64_t request, const Status &status) {
    registration_.registered(request, status, now_);
}

} // namespace kvf
