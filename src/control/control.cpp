// The engine's calls, and the clock.
#include "control/control.h"

#include "base/log.h"

#include <algorithm>
#include <utility>

namespace kvf {
namespace {

constexpr uint64_t kPlaceKept = 10'000 * kNanosPerMilli; // an idle place remembers its pauses this long

HelloMessage hello_of(const ControlConfig &config) {
    HelloMessage hello;
    hello.instance = config.instance;
    hello.role = config.role;
    hello.name = clean_text(config.name, kMostName);
    hello.rank = config.rank;
    hello.tp = {config.tp_rank, config.tp_size};
    hello.pp = {config.pp_rank, config.pp_size};
    hello.dp = {config.dp_rank, config.dp_size};
    return hello;
}

ExportsRef no_exports() {
    auto exports = std::make_shared<Exports>();
    exports->layout = std::make_shared<const Layout>();
    return exports;
}

} // namespace

Control::Control(const ControlConfig &config, const std::string &address, ControlPort &port, uint64_t now)
    : config_(config),
      hello_(hello_of(config)),
      port_(port),
      now_(now),
      exports_(no_exports()),
      releases_(std::make_shared<Releases>(port, [this](uint64_t link) { link_released(link); })),
      finder_(config_, port, seeks_, alarm_, counters_, *this),
      registration_(config_, address, port, alarm_, counters_) {}

Control::~Control() {
    end();
}

void Control::end() {
    std::vector<LinkRef> held; // the end of a link takes the lock that close holds
    for (auto &[id, connection] : connections_)
        held.push_back(std::move(connection.link));
    releases_->close([this] {
        connections_.clear();
        links_.clear();
    });
}

// -------------------------------------------------------------------------------------------------------- the engine

Status Control::set_layout(std::shared_ptr<const Layout> layout, const std::vector<TransportRegions> &regions) {
    auto exports = std::make_shared<Exports>(*exports_);
    exports->layout = std::move(layout);
    for (ExportedTransport &transport : exports->transports) {
        const auto given = std::ranges::find(regions, transport.transport, &TransportRegions::transport);
        if (given == regions.end() || given->regions.size() != exports->layout->regions.size())
            return fail(KVF_ERR_INTERNAL, "%s: the regions of the new layout are not those of the transport",
                        transport.keys.name.c_str());
        if (Status status = export_transport(*given, &transport); !status.ok())
            return status;
    }
    publish(std::move(exports));
    return {};
}

Status Control::add_transport(const std::shared_ptr<Transport> &transport, const std::vector<kvf_region *> &regions) {
    if (exports_->find(transport->name()) != nullptr)
        return fail(KVF_ERR_EXISTS, "transport %s is there already", transport->name().c_str());
    if (regions.size() != exports_->layout->regions.size())
        return fail(KVF_ERR_INTERNAL, "%s: %zu regions for a layout of %zu", transport->name().c_str(), regions.size(),
                    exports_->layout->regions.size());
    auto exports = std::make_shared<Exports>(*exports_);
    if (Status status = export_transport({transport, regions}, &exports->transports.emplace_back()); !status.ok())
        return status;
    publish(std::move(exports));
    return {};
}

void Control::remove_transport(const std::string &name) {
    if (exports_->find(name) == nullptr)
        return;
    auto exports = std::make_shared<Exports>(*exports_);
    std::erase_if(exports->transports, [&](const ExportedTransport &it) { return it.keys.name == name; });
    publish(std::move(exports)); // retires the sessions that use it
}

size_t Control::peers_of(const std::string &transport) const {
    const auto is_of = [&](const std::shared_ptr<PeerHandle> &peer) {
        return peer && peer->transport()->name() == transport;
    };
    size_t count = 0;
    for (const auto &[id, record] : links_)
        count += is_of(record.peer) ? 1 : 0;
    for (const auto &[id, connection] : connections_)
        if (connection.session && !connection.link)
            count += is_of(connection.session->handle()) ? 1 : 0;
    return count;
}

void Control::publish(std::shared_ptr<Exports> exports) {
    exports->revision = exports_->revision + 1;
    exports_ = std::move(exports);
    std::vector<std::pair<uint64_t, Status>> failed;
    for (auto &[id, connection] : connections_) {
        if (!connection.session)
            continue;
        const Session::State before = connection.session->state();
        if (Status status = connection.session->exports_changed(exports_); !status.ok())
            failed.emplace_back(id, std::move(status));
        else
            after_step(connection, before);
    }
    for (const auto &[id, status] : failed)
        if (Connection *connection = find(id))
            finish(*connection, status, true);
    if (exports_->registered() && (config_.role & KVF_ROLE_PREFILL) != 0 && !closing_)
        registration_.begin(now_);
    update_gauges();
}

void Control::shutdown(const Cause &cause) {
    if (closing_)
        return;
    closing_ = cause;
    registration_.end();
    const Cause told{KVF_ERR_PEER_CLOSED, static_cast<int32_t>(config_.rank),
                     cause.sentence.empty() ? "engine " + config_.name + " was closed" : cause.sentence};
    for (auto &[id, connection] : connections_) {
        if (connection.session)
            (void)send(id, ByeMessage{false, told});
        port_.close(id);
        lose_link(connection, cause);
    }
    connections_.clear();
    sources_.clear();
    unready_bytes_ = 0;
    settles_.clear();
    places_.clear();
    while (!seeks_.empty()) {
        Seek &seek = seeks_.begin()->second;
        seek.where = nullptr; // its place is gone
        refused(seek, cause);
    }
    update_gauges();
}

// --------------------------------------------------------------------------------------------------------- the clock

void Control::tick(uint64_t now) {
    now_ = std::max(now_, now);
    if (!alarm_.rings(now_))
        return;
    tick_connections();
    tick_gone();
    tick_places();
    tick_fences();
    finder_.tick(now_);
    registration_.tick(now_);
    update_gauges();
}

void Control::tick_connections() {
    std::vector<std::pair<uint64_t, Status>> over;
    for (auto &[id, connection] : connections_) {
        if (!connection.session) {
            if (now_ >= connection.dial_by)
                over.emplace_back(id, fail(KVF_ERR_PEER_LOST, "%s does not answer", connection.place->address.c_str()));
            else
                alarm_.by(connection.dial_by);
            continue;
        }
        explain(connection);
        const uint32_t missed = connection.session->missed();
        Status status = connection.session->tick(now_);
        if (!status.ok() || connection.session->missed() != missed)
            counters_.add(ControlCounter::heartbeats_missed);
        if (status.ok() && connection.retiring)
            status = unused(connection);
        if (!status.ok())
            over.emplace_back(id, std::move(status));
        else
            alarm_.by(connection.session->next_deadline());
    }
    for (const auto &[id, status] : over)
        if (Connection *connection = find(id))
            finish(*connection, status, true);
}

// Rooms that wait for tensors hear of it when that takes its time.
void Control::explain(Connection &connection) {
    if (now_ < connection.explain_at)
        return alarm_.by(connection.explain_at);
    connection.explain_at = kNever;
    const std::string why = connection.session->waits_for();
    if (connection.place != nullptr && !why.empty())
        delay(*connection.place, why);
}

void Control::tick_places() {
    for (auto it = places_.begin(); it != places_.end();) {
        Place &place = it->second;
        if (place.retry_at <= now_) {
            place.retry_at = kNever;
            seek_again(std::exchange(place.waiting, {}));
            if (place.connection == 0 && !place.settling.empty())
                dial(place);
        }
        alarm_.by(place.retry_at);
        const bool wanted =
            place.connection != 0 || place.retry_at != kNever || !place.waiting.empty() || !place.settling.empty();
        if (wanted)
            place.idle_at = kNever;
        else if (place.idle_at == kNever)
            place.idle_at = now_ + kPlaceKept;
        alarm_.by(place.idle_at);
        it = place.idle_at <= now_ ? places_.erase(it) : std::next(it);
    }
}

void Control::update_gauges() {
    counters_.set(ControlCounter::open_connections, connections_.size());
    counters_.set(ControlCounter::open_links, links_.size());
    counters_.set(ControlCounter::open_seeks, seeks_.size() - gone_.size());
    counters_.set(ControlCounter::unsent_aborts, gone_.size());
    counters_.set(ControlCounter::open_settles, settles_.size());
}

} // namespace kvf
