// Messages of rooms: from shards to peers and from peers to the shard that owns the room.
#include "control/control.h"

#include "base/seeded_fault.h"

#include <utility>

namespace kvf {

void Control::to_room(uint64_t room_id, ToShard &&message) {
    port_.to_shard(shard_of(room_id, config_.shards), std::move(message));
}

void Control::handle(ToControl &&message) {
    std::visit([this](auto &&it) { on(std::forward<decltype(it)>(it)); }, std::move(message));
    update_gauges();
}

// ------------------------------------------------------------------------------------------------------- from shards

// Null, and counted, when the link's connection is gone; its rooms have been told or are about to be.
Control::Connection *Control::ready_connection(const LinkRef &link) {
    Connection *connection = link ? find(link->id) : nullptr;
    if (connection == nullptr || connection->link != link) {
        counters_.add(ControlCounter::messages_dropped);
        return nullptr;
    }
    return connection;
}

void Control::on(SendOffer &&message) {
    Connection *connection = ready_connection(message.link);
    if (connection == nullptr)
        return;
    const Status status = send(connection->id, OfferMessage{message.room_id, message.room.value, message.prefix_tokens,
                                                            std::move(message.lists)});
    if (status.ok())
        return counters_.add(ControlCounter::offers_sent);
    RoomNews news;
    news.kind = RoomNews::kFailed;
    news.drained = true; // it was never sent
    news.cause = {status.code(), static_cast<int32_t>(config_.rank), status.sentence()};
    // Its sender waits for an offer that will not come.
    counters_.add(ControlCounter::aborts_sent);
    (void)send(connection->id, AbortMessage{message.room_id, message.room.value, false, news.cause, 0});
    to_room(message.room_id, NewsCame{message.link->id, message.room_id, message.room.value, std::move(news)});
}

void Control::on(SendNews &&message) {
    if (const Connection *connection = ready_connection(message.link)) {
        (void)send(connection->id, StatusMessage{message.room_id, message.receiver, std::move(message.news)});
        counters_.add(ControlCounter::news_sent);
    }
}

void Control::on(SendDrained &&message) {
    if (find(message.connection) == nullptr)
        return counters_.add(ControlCounter::messages_dropped); // its receiver asks again on another
    (void)send(message.connection, DrainedMessage{message.room_id, message.receiver});
    counters_.add(ControlCounter::news_sent);
}

void Control::on(SendAbort &&message) {
    if (const Connection *connection = ready_connection(message.link)) {
        (void)send(connection->id,
                   AbortMessage{message.room_id, message.room.value, message.offered, std::move(message.cause), 0});
        counters_.add(ControlCounter::aborts_sent);
    }
}

// -------------------------------------------------------------------------------------------------------- from peers

void Control::deliver(Connection &connection, OfferMessage &&message) {
    counters_.add(ControlCounter::offers_received);
    to_room(message.room_id, OfferCame{connection.link, connection.session->routes(), message.room_id, message.receiver,
                                       message.prefix_tokens, std::move(message.lists)});
}

void Control::deliver(Connection &connection, StatusMessage &&message) {
    counters_.add(ControlCounter::news_received);
    to_room(message.room_id, NewsCame{connection.id, message.room_id, message.receiver, std::move(message.news)});
}

void Control::deliver(Connection &connection, AbortMessage &&message) {
    counters_.add(ControlCounter::aborts_received);
    if (message.offered_on != 0 && !seeded(SeededFault::lost_connection_stays))
        end_lost(connection, message.offered_on);
    to_room(message.room_id, AbortCame{connection.id, connection.session->peer().instance, message.room_id,
                                       message.receiver, message.offered, std::move(message.cause)});
}

void Control::deliver(Connection &connection, DrainedMessage &&message) {
    counters_.add(ControlCounter::news_received);
    const uint64_t instance = connection.session->peer().instance;
    const auto settle = settles_.find(message.receiver);
    if (settle != settles_.end() && (settle->second.instance == instance || seeded(SeededFault::any_instance_settles)))
        forget_settle(message.receiver);
    to_room(message.room_id, DrainedCame{instance, message.room_id, message.receiver});
}

} // namespace kvf
