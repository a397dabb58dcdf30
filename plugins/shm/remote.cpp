#include "remote.h"

#include "host.h"
#include "instance.h"

#include <cinttypes>

using shm::fail;
using shm::Status;

namespace {

// What the key names, in the words of the process that is about to be reached.
Status look_up(const kvf_peer &peer, const shm::Key &key, shm::RegionRecord &region) {
    if (key.nonce != peer.address.nonce)
        return fail(KVF_ERR_PROTOCOL, "the key is of another instance than %s", peer.name.c_str());
    const std::optional<shm::RegionRecord> found = peer.cookie.region(key.slot, key.serial);
    if (!found)
        return fail(KVF_ERR_PROTOCOL, "%s has not registered the region that its key names, or no longer",
                    peer.name.c_str());
    uint64_t end = 0;
    if (found->length == 0 || __builtin_add_overflow(found->base, found->length, &end))
        return fail(KVF_ERR_RANGE, "%s registered %" PRIu64 " bytes at %#" PRIx64, peer.name.c_str(), found->length,
                    found->base);
    region = *found;
    return {};
}

// A memfd that was found and is not what the key says is the peer's fault, which no other way mends.
bool is_final(const Status &status) {
    return status.code() == KVF_ERR_PROTOCOL || status.code() == KVF_ERR_RANGE ||
           status.code() == KVF_ERR_UNSUPPORTED || status.code() == KVF_ERR_PEER_LOST;
}

Status choose_way(kvf_peer &peer, const shm::RegionRecord &region, kvf_remote &remote) {
    Status mapped = peer.map_way;
    if (region.fd < 0) {
        mapped = fail(KVF_ERR_UNSUPPORTED, "its memory is not from kvf_memory_alloc, so it cannot be mapped");
    } else if (peer.map_way.ok()) {
        mapped =
            peer.pools.get(peer.process, peer.cookie, region, &peer.instance.counters.open_mapped_bytes, remote.pool);
        if (mapped.ok() || is_final(mapped))
            return mapped;
        if (peer.cma_way.ok())
            shm::host().log(KVF_LOG_WARN, ("shm: " + mapped.sentence() + "; using cross-memory attach").c_str());
    }
    if (peer.cma_way.ok())
        return {};
    return fail(peer.cma_way.code(), "cannot reach a region of %s: %s; %s", peer.name.c_str(),
                mapped.sentence().c_str(), peer.cma_way.sentence().c_str());
}

} // namespace

Status kvf_remote::import(kvf_peer &peer, const shm::Key &key, std::unique_ptr<kvf_remote> &remote) {
    if (!peer.connected)
        return fail(KVF_ERR_STATE, "%s is not connected", peer.name.c_str());
    if (peer.gate.is_shut())
        return fail(KVF_ERR_CANCELLED, "%s is fenced", peer.name.c_str());
    if (Status status = peer.prove_answered(); !status.ok())
        return status;
    shm::RegionRecord region;
    if (Status status = look_up(peer, key, region); !status.ok())
        return status;
    auto made = std::make_unique<kvf_remote>();
    made->peer = &peer;
    made->length = region.length;
    made->address = region.base;
    made->pool_offset = region.fd_offset;
    if (Status status = choose_way(peer, region, *made); !status.ok())
        return status;
    remote = std::move(made);
    return {};
}
