#include "control/peer_handle.h"

#include <utility>

namespace kvf {
namespace {

constexpr size_t kMostKeys = 2 * kMostTensors; // old ones stay as long as the peer, for rooms under way

} // namespace

Status PeerHandle::create(const std::shared_ptr<Transport> &transport, const Bytes &address, uint64_t instance,
                          const std::string &name, std::shared_ptr<PeerHandle> *out) {
    kvf_peer *peer = nullptr;
    if (Status status = transport->peer_create(address, instance, name, &peer); !status.ok())
        return status;
    out->reset(new PeerHandle(transport, peer));
    return {};
}

PeerHandle::PeerHandle(std::shared_ptr<Transport> transport, kvf_peer *peer)
    : transport_(std::move(transport)), peer_(peer) {}

PeerHandle::~PeerHandle() {
    for (const auto &[key, remote] : remotes_)
        transport_->release_key(peer_, remote);
    transport_->peer_destroy(peer_);
}

Status PeerHandle::import(const Bytes &key, kvf_remote **remote) {
    const auto known = remotes_.find(key);
    if (known != remotes_.end()) {
        *remote = known->second;
        return {};
    }
    if (remotes_.size() >= kMostKeys)
        return fail(KVF_ERR_PROTOCOL, "%s: more than %zu keys from one peer", transport_->name().c_str(), kMostKeys);
    if (Status status = transport_->import_key(peer_, key, remote); !status.ok())
        return status;
    remotes_.emplace(key, *remote);
    return {};
}

} // namespace kvf
