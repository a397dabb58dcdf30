// Rooms whose link was lost before they heard that nothing of theirs is in flight. The engine behind the link is asked
// on whatever connection there is, also on one over which no rooms can begin: it knows of its operations all the same.
#include "control/control.h"

#include "base/seeded_fault.h"

#include <utility>

namespace kvf {

void Control::on(SettleRoom &&message) {
    const auto lost = links_.find(message.link->id);
    if (closing_ || lost == links_.end())
        return;
    const uint64_t key = message.room.value;
    Place &place = place_of(lost->second.address);
    Settle &settle = settles_[key];
    settle = {message.room_id,          key,   message.link->instance, lost->second.peer_connection,
              std::move(message.cause), &place};
    place.settling.insert(key);
    Connection *connection = find(place.connection);
    if (connection != nullptr && connection->session && connection->session->greeted())
        settle_on(*connection, settle);
    else if (connection == nullptr && place.retry_at == kNever)
        dial(place);
}

// The peer of a place has said who it is.
void Control::settle_on(Connection &connection) {
    const Waiting rooms = connection.place->settling;
    for (const uint64_t room : rooms)
        settle_on(connection, settles_.find(room)->second);
}

void Control::settle_on(Connection &connection, const Settle &settle) {
    // Another engine has its address: what the earlier one may still do, only a fence ends.
    if (connection.session->peer().instance != settle.instance && !seeded(SeededFault::any_instance_settles))
        return forget_settle(settle.receiver);
    counters_.add(ControlCounter::aborts_sent);
    (void)send(connection.id, AbortMessage{settle.room_id, settle.receiver, true, settle.cause, settle.offered_on});
}

void Control::forget_settle(uint64_t room) {
    const auto it = settles_.find(room);
    if (it == settles_.end())
        return;
    it->second.place->settling.erase(room);
    settles_.erase(it);
}

void Control::forget_settles(Place &place) {
    for (const uint64_t room : std::exchange(place.settling, {}))
        settles_.erase(room);
}

// A connection that its peer has lost and this side has not: what may still be on its way there is of no use any more.
void Control::end_lost(Connection &connection, uint64_t lost) {
    Connection *const other = find(lost);
    if (other == nullptr || other == &connection || !other->session || !other->session->greeted() ||
        other->session->peer().instance != connection.session->peer().instance)
        return;
    finish(*other, fail(KVF_ERR_PEER_LOST, "%s lost it and uses another", connection.session->peer_name().c_str()),
           false);
}

} // namespace kvf
