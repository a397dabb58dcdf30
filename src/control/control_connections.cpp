// Connections: how they begin, what comes in on them, how they end.
#include "control/control.h"

#include "base/log.h"

#include <new>
#include <utility>

namespace kvf {
namespace {

constexpr size_t kMostConnections = 4096;
constexpr size_t kMostFromOne = 1024;              // of them accepted from one host
constexpr size_t kMostUnready = size_t{256} << 20; // bytes that peers which are not ready have sent and that are kept
constexpr size_t kMostStrangers = 1024;
constexpr uint64_t kExplainAfter = 500 * kNanosPerMilli;      // a LAYOUT that is just under way needs no explanation
constexpr uint64_t kRetiringLooks = 10 * kNanosPerMilli;      // how often an end is looked for that nobody announces
constexpr uint64_t kRetiringPatience = 2000 * kNanosPerMilli; // with a dialer that is to end an unused connection

// "tcp://10.0.0.1" of "tcp://10.0.0.1:4000".
std::string host_of(const std::string &address) {
    const size_t port = address.rfind(':');
    return address.starts_with("tcp://") && port > 5 ? address.substr(0, port) : address;
}

bool is_room_message(const WireMessage &message) {
    return std::holds_alternative<OfferMessage>(message) || std::holds_alternative<StatusMessage>(message) ||
           std::holds_alternative<AbortMessage>(message) || std::holds_alternative<DrainedMessage>(message);
}

} // namespace

Control::Connection *Control::find(uint64_t connection) {
    const auto it = connections_.find(connection);
    return it != connections_.end() ? &it->second : nullptr;
}

Control::Connection &Control::add_connection(uint64_t id) {
    Connection &connection = connections_[id];
    connection.id = id;
    return connection;
}

template <typename Message>
Status Control::send(uint64_t connection, const Message &message) {
    std::span<const uint8_t> frame;
    if (Status status = encoder_.encode(message, &frame); !status.ok())
        return status;
    counters_.add(ControlCounter::frames_sent);
    port_.send(connection, frame);
    return {};
}

template Status Control::send(uint64_t, const OfferMessage &);
template Status Control::send(uint64_t, const StatusMessage &);
template Status Control::send(uint64_t, const AbortMessage &);
template Status Control::send(uint64_t, const DrainedMessage &);
template Status Control::send(uint64_t, const ByeMessage &);

// --------------------------------------------------------------------------------------------------------- beginning

uint64_t Control::accepted(const std::string &peer_address) {
    std::string source = host_of(peer_address);
    const auto from = sources_.find(source);
    if (connections_.size() >= kMostConnections || (from != sources_.end() && from->second >= kMostFromOne) ||
        closing_) {
        counters_.add(ControlCounter::connections_rejected);
        return 0;
    }
    counters_.add(ControlCounter::connections_accepted);
    ++sources_[source];
    Connection &connection = add_connection(next_connection_++);
    connection.source = std::move(source);
    open_session(connection, Session::Side::acceptor, peer_address);
    update_gauges();
    return connection.id;
}

void Control::connected(uint64_t id) {
    Connection *connection = find(id);
    if (connection == nullptr || connection->session)
        return;
    connection->dial_by = kNever;
    open_session(*connection, Session::Side::dialer, connection->place->address);
    if (Status status = connection->session->start(); !status.ok())
        finish(*connection, status, true);
    update_gauges();
}

void Control::open_session(Connection &connection, Session::Side side, const std::string &address) {
    const uint64_t id = connection.id;
    HelloMessage hello = hello_;
    hello.connection = id;
    connection.session =
        std::make_unique<Session>(side, std::move(hello), address, exports_, config_.heartbeat_ns, now_,
                                  [this, id](const WireMessage &message) { return send(id, message); });
    alarm_.by(connection.session->next_deadline());
}

void Control::dial_failed(uint64_t id, const Status &why) {
    Connection *connection = find(id);
    if (connection == nullptr || connection->session)
        return;
    if (connection->place != nullptr && connection->place->why.empty()) // once, until it is reached
        log(KVF_LOG_WARN, "%s: no engine reached yet at %s, trying again: %s", config_.name.c_str(),
            connection->place->address.c_str(), why.sentence().c_str());
    remove(*connection, {}, why);
    update_gauges();
}

// ---------------------------------------------------------------------------------------------------------- coming in

void Control::received(uint64_t id, std::span<const uint8_t> bytes) {
    Connection *connection = find(id);
    if (connection == nullptr || !connection->session)
        return;
    connection->session->heard(now_);
    try {
        receive(*connection, bytes);
        if ((connection = find(id)) != nullptr)
            charge(*connection);
    } catch (const std::bad_alloc &) {
        // The message that did not fit costs its connection, no more.
        if ((connection = find(id)) != nullptr)
            finish(*connection,
                   fail(KVF_ERR_NO_MEMORY, "no memory for a message of %s", connection->session->peer_name().c_str()),
                   false);
    }
    update_gauges();
}

void Control::receive(Connection &connection, std::span<const uint8_t> bytes) {
    for (;;) {
        std::span<const uint8_t> frame;
        bool said_bye = false;
        Status status = connection.reader.next(&bytes, &frame);
        if (!status.ok()) {
            counters_.add(ControlCounter::messages_malformed);
            status = {status.code(), connection.session->peer_name() + " sent " + status.sentence()};
        } else if (frame.empty()) {
            return;
        } else {
            status = take_frame(connection, frame, &said_bye);
        }
        if (!status.ok())
            return finish(connection, status, !said_bye);
    }
}

// Keeps account of what is held for peers that are not ready, who have proven nothing yet. Where that is too much, the
// one with most of it goes.
void Control::charge(Connection &connection) {
    const bool ready = connection.session->state() == Session::State::ready;
    const size_t now = ready ? 0 : connection.reader.buffered() + connection.told_bytes;
    unready_bytes_ += now - std::exchange(connection.unready_bytes, now);
    if (unready_bytes_ <= kMostUnready)
        return;
    Connection *largest = &connection;
    for (auto &[id, other] : connections_)
        if (other.unready_bytes > largest->unready_bytes)
            largest = &other;
    finish(*largest,
           fail(KVF_ERR_NO_MEMORY, "%s holds %zu bytes of what peers that are not ready may hold",
                largest->session->peer_name().c_str(), largest->unready_bytes),
           true);
}

Status Control::take_frame(Connection &connection, std::span<const uint8_t> frame, bool *said_bye) {
    counters_.add(ControlCounter::frames_received);
    WireMessage message;
    if (Status status = decode(frame, &message); !status.ok()) {
        counters_.add(ControlCounter::messages_malformed);
        return {status.code(), connection.session->peer_name() + " sent " + status.sentence()};
    }
    if (std::holds_alternative<LayoutMessage>(message))
        connection.told_bytes = frame.size();
    else if (std::holds_alternative<RegionsMessage>(message))
        connection.told_bytes += frame.size();
    if (is_room_message(message))
        return take_room_message(connection, std::move(message));
    *said_bye = std::holds_alternative<ByeMessage>(message);
    const Session::State before = connection.session->state();
    Status status = connection.session->handle(std::move(message));
    if (!status.ok()) {
        if (status.code() == KVF_ERR_PROTOCOL && !*said_bye)
            counters_.add(ControlCounter::messages_out_of_order);
        return status;
    }
    after_step(connection, before);
    return {};
}

Status Control::take_room_message(Connection &connection, WireMessage &&message) {
    if (Status status = connection.session->admit(message); !status.ok()) {
        counters_.add(ControlCounter::messages_out_of_order);
        return status;
    }
    if (auto *offer = std::get_if<OfferMessage>(&message))
        deliver(connection, std::move(*offer));
    else if (auto *status = std::get_if<StatusMessage>(&message))
        deliver(connection, std::move(*status));
    else if (auto *abort = std::get_if<AbortMessage>(&message))
        deliver(connection, std::move(*abort));
    else if (auto *drained = std::get_if<DrainedMessage>(&message))
        deliver(connection, std::move(*drained));
    return {};
}

// What follows when a session may have come to another state.
void Control::after_step(Connection &connection, Session::State before) {
    const Session &session = *connection.session;
    const Session::State state = session.state();
    if (state != before)
        alarm_.by(now_); // its deadline is another
    if (before == Session::State::hello && state != before) {
        connection.reader.set_bound(kFrameBound);
        alarm_.by(session.next_deadline()); // sooner than that of HELLO was
        greeted(connection);
    }
    if (state != before && state == Session::State::ready) {
        counters_.add(ControlCounter::handshakes_ready);
        make_link(connection);
        place_ready(connection);
    } else if (state != before && state == Session::State::refused) {
        counters_.add(ControlCounter::handshakes_refused);
        place_refused(connection);
    } else if (state == Session::State::layout && connection.place != nullptr) {
        connection.explain_at = now_ + kExplainAfter;
        alarm_.by(connection.explain_at);
    }
    const bool unloaded = connection.link && exports_->find(connection.link->transport->name()) == nullptr;
    if (session.retiring() || unloaded)
        retire(connection);
}

// ------------------------------------------------------------------------------------------------------------- ending

// No new rooms from here on. The dialer closes the connection when those that use it have ended; an acceptor asks the
// dialer for that, and does it itself for one that won't.
void Control::retire(Connection &connection) {
    if (connection.retiring)
        return;
    connection.retiring = true;
    if (connection.session->side() == Session::Side::acceptor) {
        (void)send(connection.id, ByeMessage{true, {KVF_OK, static_cast<int32_t>(config_.rank), ""}});
        connection.patient_until = now_ + kRetiringPatience;
        return alarm_.by(connection.patient_until);
    }
    alarm_.by(now_);
    to_all_shards(LinkRetired{connection.id});
    if (connection.place != nullptr)
        place_lost(*std::exchange(connection.place, nullptr),
                   fail(KVF_ERR_PEER_CLOSED, "%s wants another connection", connection.session->peer_name().c_str()));
}

// A failure when nothing uses the retiring connection any more.
Status Control::unused(const Connection &connection) {
    if (now_ < connection.patient_until) {
        alarm_.by(connection.patient_until);
        return {};
    }
    // Ours is the only reference: only this thread could make more.
    if (!connection.link || connection.link.use_count() == 1)
        return fail(KVF_ERR_PEER_CLOSED, "%s uses another connection now", config_.name.c_str());
    alarm_.by(now_ + kRetiringLooks);
    return {};
}

void Control::closed(uint64_t id, const Status &why) {
    if (Connection *connection = find(id)) {
        const std::string name = connection->session ? connection->session->peer_name() : connection->place->address;
        const Status told{why.code(), "connection to " + name + " lost: " + why.sentence()};
        log(connection->link ? KVF_LOG_WARN : KVF_LOG_INFO, "%s: %s", config_.name.c_str(), told.sentence().c_str());
        remove(*connection, {told.code(), -1, told.sentence()}, told);
    }
    update_gauges();
}

// Whether the log has it already: of a place at the last attempt, or of a host that sends before HELLO what is none.
bool Control::is_told(const Connection &connection, const Status &why) {
    if (connection.place != nullptr)
        return connection.place->why == why.sentence();
    if (!connection.session || connection.session->greeted())
        return false;
    if (strangers_.size() >= kMostStrangers)
        strangers_.clear();
    return !strangers_.insert(connection.source).second;
}

void Control::finish(Connection &connection, const Status &why, bool say_bye) {
    const bool expected = why.code() == KVF_ERR_PEER_CLOSED || is_told(connection, why);
    log(expected ? KVF_LOG_INFO : KVF_LOG_WARN, "%s: connection ended: %s", config_.name.c_str(),
        why.sentence().c_str());
    if (say_bye && connection.session)
        (void)send(connection.id, ByeMessage{false, {why.code(), static_cast<int32_t>(config_.rank), why.sentence()}});
    port_.close(connection.id);
    remove(connection, {why.code(), -1, why.sentence()}, why);
    update_gauges();
}

// The connection is not to be used after this.
void Control::remove(Connection &connection, const Cause &cause, const Status &why) {
    if (connection.session) {
        counters_.add(ControlCounter::connections_lost);
        Cause from_peer = cause;
        from_peer.rank = connection.session->greeted() ? static_cast<int32_t>(connection.session->peer().rank) : -1;
        lose_link(connection, from_peer);
    } else {
        counters_.add(ControlCounter::connections_failed);
    }
    unready_bytes_ -= connection.unready_bytes;
    const auto from = sources_.find(connection.source);
    if (from != sources_.end() && --from->second == 0)
        sources_.erase(from);
    Place *place = connection.place;
    connections_.erase(connection.id);
    if (place != nullptr)
        place_lost(*place, why);
}

} // namespace kvf
