// Links: made when a session is ready, lost with its connection, fenced for as long as a room holds one, and ended when
// nobody does.
#include "control/control.h"

#include "base/log.h"

#include <utility>

namespace kvf {

void Control::make_link(Connection &connection) {
    const uint64_t id = connection.id;
    const Session &session = *connection.session;
    std::shared_ptr<PeerHandle> peer = session.handle();
    LinkRecord &record = links_[id];
    record.peer = peer;
    record.address = connection.place != nullptr ? connection.place->address : "";
    record.peer_connection = session.peer().connection;
    std::shared_ptr<Transport> transport = peer->transport();
    kvf_peer *const raw = peer->get();
    // Moved on when it runs: the function itself is destroyed on a thread that must not end the peer.
    auto released = [releases = releases_, ticket = Releases::Ticket{{id, std::move(peer)}}]() mutable {
        releases->release(ticket);
    };
    connection.link = std::make_shared<const Link>(id, session.peer().instance, session.peer().rank,
                                                   session.peer_name(), std::move(transport), raw, std::move(released));
    record.link = connection.link;
    log(KVF_LOG_INFO, "%s: ready for rooms with %s over %s", config_.name.c_str(), session.peer_name().c_str(),
        connection.link->transport->name().c_str());
}

template <typename Message>
void Control::to_all_shards(const Message &message) {
    for (uint32_t shard = 0; shard < config_.shards; ++shard)
        port_.to_shard(shard, Message(message));
}

template void Control::to_all_shards(const LinkRetired &);

void Control::lose_link(Connection &connection, const Cause &cause) {
    if (!connection.link)
        return;
    const uint64_t id = connection.id;
    connection.link->lose();
    to_all_shards(LinkLost{std::move(connection.link), cause});
    connection.link.reset();
    const auto it = links_.find(id);
    if (it == links_.end())
        return;
    it->second.orderly = cause.code == KVF_ERR_PEER_CLOSED;
    try_fence(id, &it->second);
}

void Control::try_fence(uint64_t link, LinkRecord *record) {
    record->fence_at = kNever;
    const LinkRef held = record->link.lock();
    if (!held)
        return; // its release is on the way
    const Status status = record->peer->transport()->fence(record->peer->get());
    if (status.ok()) {
        counters_.add(ControlCounter::fences_held);
        return to_all_shards(LinkFenced{link});
    }
    if (record->fence_why != status.sentence())
        log(record->orderly ? KVF_LOG_DEBUG : KVF_LOG_INFO, "%s: no fence around %s: %s", config_.name.c_str(),
            held->name.c_str(), status.sentence().c_str());
    record->fence_why = status.sentence();
    if (status.code() == KVF_ERR_UNSUPPORTED)
        return;
    counters_.add(ControlCounter::fences_retried);
    record->fence_at = now_ + record->fence_retry.pause();
    alarm_.by(record->fence_at);
}

void Control::tick_fences() {
    for (auto &[id, record] : links_) {
        if (record.fence_at <= now_)
            try_fence(id, &record);
        alarm_.by(record.fence_at);
    }
}

void Control::link_released(uint64_t link) {
    links_.erase(link);
    update_gauges();
}

} // namespace kvf
