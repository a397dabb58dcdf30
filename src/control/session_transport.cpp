// A session's choice of a transport: the acceptor proposes its own ones in their order, the first that both sides can
// connect is it. And what comes of it: the routes, and their renewal when tensors are registered later.
#include "control/session.h"

#include "base/log.h"
#include "control/routes.h"

#include <algorithm>
#include <map>

namespace kvf {

const TransportKeys *Session::peer_keys(const std::string &transport) const {
    if (!keys_)
        return nullptr;
    const auto it = std::ranges::find(keys_->transports, transport, &TransportKeys::name);
    return it != keys_->transports.end() ? &*it : nullptr;
}

Status Session::on(RegionsMessage &&regions) {
    const bool expected = state_ == State::regions || (state_ == State::ready && theirs_ && !keys_);
    if (!expected)
        return out_of_order("REGIONS");
    const auto short_of_keys = [&](const TransportKeys &it) { return it.keys.size() != theirs_->regions.size(); };
    if (regions.layout_version != theirs_->layout.version || std::ranges::any_of(regions.transports, short_of_keys))
        return fail(KVF_ERR_PROTOCOL, "%s sent REGIONS that do not belong to its LAYOUT", peer_name_.c_str());
    if (state_ == State::ready)
        return regions_update(std::move(regions));
    keys_ = std::move(regions);
    state_ = State::choosing;
    return side_ == Side::acceptor ? try_next_transport() : Status();
}

// ------------------------------------------------------------------------------------------------------ the acceptor

Status Session::try_next_transport() {
    handle_.reset();
    while (candidate_ < paired_->transports.size()) {
        const ExportedTransport &local = paired_->transports[candidate_++];
        Bytes blob;
        const Status tried = try_transport(local, &blob);
        if (tried.ok())
            return send_(SelectMessage{local.keys.name, std::move(blob)});
        refusals_.push_back({local.keys.name, tried.code(), tried.sentence()});
        handle_.reset();
    }
    return refuse_transports();
}

Status Session::try_transport(const ExportedTransport &local, Bytes *blob) {
    const std::string &name = local.keys.name;
    if (exports_->find(name) == nullptr)
        return fail(KVF_ERR_NO_TRANSPORT, "being unloaded at %s", self_.name.c_str());
    const TransportKeys *theirs = peer_keys(name);
    if (theirs == nullptr)
        return fail(KVF_ERR_NO_TRANSPORT, "not loaded at %s", peer_name_.c_str());
    if (Status status =
            PeerHandle::create(local.transport, theirs->address, peer_hello_.instance, peer_name_, &handle_);
        !status.ok())
        return status;
    return local.transport->peer_export(handle_->get(), blob);
}

// The dialer has connected: the acceptor does too, and imports what it will write to.
Status Session::connect_dialer(const Bytes &blob) {
    const std::string &name = handle_->transport()->name();
    if (Status status = handle_->transport()->peer_connect(handle_->get(), blob); !status.ok())
        return status;
    return build_routes(*paired_->find(name), *paired_->layout, theirs_->layout, *peer_keys(name), handle_.get(),
                        &routes_);
}

Status Session::refuse_transports() {
    for (const TransportKeys &theirs : keys_->transports)
        if (paired_->find(theirs.name) == nullptr)
            refusals_.push_back({theirs.name, KVF_ERR_NO_TRANSPORT, "not loaded at " + self_.name});
    if (refusals_.empty())
        refusals_.push_back({"", KVF_ERR_NO_TRANSPORT, "none is loaded on either side"});
    if (refusals_.size() > kMostTransports)
        refusals_.resize(kMostTransports);
    refuse_by(refusals_);
    if (Status status = send_(ReadyMessage{{}, std::exchange(refusals_, {})}); !status.ok())
        return status;
    // What changed meanwhile may make it worth another try.
    return changed_ ? send_(exports_->layout_message(0)) : Status();
}

Status Session::finish_acceptor(const ReadyMessage &ready) {
    if (!handle_)
        return out_of_order("READY");
    const std::string name = handle_->transport()->name();
    if (!ready.refusals.empty()) {
        refusals_.push_back({name, ready.refusals[0].code, ready.refusals[0].sentence});
        return try_next_transport();
    }
    if (Status status = connect_dialer(ready.blob); !status.ok()) {
        refusals_.push_back({name, status.code(), status.sentence()});
        return try_next_transport();
    }
    if (Status status = send_(ReadyMessage{}); !status.ok())
        return status;
    become_ready();
    return tell_update();
}

// -------------------------------------------------------------------------------------------------------- the dialer

Status Session::on(SelectMessage &&select) {
    if (side_ != Side::dialer || state_ != State::choosing)
        return out_of_order("SELECT");
    ReadyMessage answer;
    if (Status status = dialer_tries(select, &answer.blob); !status.ok()) {
        handle_.reset();
        answer.blob.clear();
        answer.refusals.push_back({select.transport, status.code(), status.sentence()});
    }
    return send_(answer);
}

Status Session::dialer_tries(const SelectMessage &select, Bytes *blob) {
    handle_.reset();
    const ExportedTransport *local = paired_->find(select.transport);
    const TransportKeys *theirs = peer_keys(select.transport);
    if (local == nullptr || theirs == nullptr || exports_->find(select.transport) == nullptr)
        return fail(KVF_ERR_NO_TRANSPORT, "not loaded at %s", self_.name.c_str());
    if (Status status =
            PeerHandle::create(local->transport, theirs->address, peer_hello_.instance, peer_name_, &handle_);
        !status.ok())
        return status;
    if (Status status = local->transport->peer_export(handle_->get(), blob); !status.ok())
        return status;
    return local->transport->peer_connect(handle_->get(), select.blob);
}

Status Session::on(ReadyMessage &&ready) {
    if (state_ != State::choosing)
        return out_of_order("READY");
    if (side_ == Side::acceptor)
        return finish_acceptor(ready);
    if (!ready.refusals.empty()) {
        refuse_by(ready.refusals);
        return {};
    }
    if (!handle_)
        return out_of_order("READY");
    become_ready();
    return tell_update();
}

// ----------------------------------------------------------------------------------------------------- how it ended

void Session::become_ready() {
    state_ = State::ready;
    refusals_.clear();
}

void Session::refuse(int code, std::string sentence) {
    state_ = State::refused;
    handle_.reset();
    refusal_ = {code, static_cast<int32_t>(self_.rank), std::move(sentence)};
    changed_ = exports_->revision != paired_->revision;
    log(KVF_LOG_WARN, "%s: no rooms with %s: %s", self_.name.c_str(), peer_name_.c_str(), refusal_.sentence.c_str());
}

void Session::refuse_by(const std::vector<Refusal> &refusals) {
    std::string sentence = "no transport to " + peer_name_;
    int code = KVF_ERR_NO_TRANSPORT;
    const char *separator = ": ";
    for (const Refusal &refusal : refusals) {
        wanting_ = wanting_ || refusal.code == KVF_ERR_SYSTEM || refusal.code == KVF_ERR_NO_MEMORY;
        sentence += separator;
        if (!refusal.transport.empty() && !refusal.sentence.starts_with(refusal.transport + ":"))
            sentence += refusal.transport + ": ";
        sentence += refusal.sentence;
        separator = "; ";
    }
    if (refusals.size() == 1)
        code = refusals[0].code;
    refuse(code, std::move(sentence));
}

// --------------------------------------------------------------------------------------- registration while it runs

Status Session::regions_update(RegionsMessage &&regions) {
    keys_ = std::move(regions);
    become_ready();
    rebuild_routes();
    return {};
}

// Rooms that begin from here on use the new routes. While one side has registered what the other has not yet, the old
// ones stay, and no room is refused for it.
void Session::rebuild_routes() {
    if (side_ != Side::acceptor || !keys_)
        return;
    const std::string &name = handle_->transport()->name();
    const ExportedTransport *local = exports_->find(name);
    const TransportKeys *keys = peer_keys(name);
    if (local == nullptr || keys == nullptr)
        return;
    Status status = compare_layouts(*exports_->layout, self_.name, theirs_->layout, peer_name_);
    if (status.ok())
        status = build_routes(*local, *exports_->layout, theirs_->layout, *keys, handle_.get(), &routes_);
    if (!status.ok())
        log(KVF_LOG_INFO, "%s: rooms with %s go on with the tensors of before: %s", self_.name.c_str(),
            peer_name_.c_str(), status.sentence().c_str());
}

} // namespace kvf
