#include "remote.h"

#include "host.h"
#include "instance.h"

#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>

using shm::fail;
using shm::Status;

namespace {

Status check(const kvf_peer &peer, const shm::Key &key) {
    if (key.nonce != peer.address.nonce)
        return fail(KVF_ERR_PROTOCOL, "the key is of another instance than %s", peer.name.c_str());
    uint64_t end = 0;
    if (key.length == 0 || key.fd < -1 || __builtin_add_overflow(key.base, key.length, &end) ||
        __builtin_add_overflow(key.fd_offset, key.length, &end))
        return fail(KVF_ERR_RANGE,
                    "a key of %s names %" PRIu64 " bytes at %#" PRIx64 ", offset %" PRIu64 " of descriptor %d",
                    peer.name.c_str(), key.length, key.base, key.fd_offset, key.fd);
    return {};
}

// Regions of one memfd share its mapping, unless the memfd has grown since.
Status map_pool(kvf_peer &peer, const shm::Key &key, std::shared_ptr<shm::Mapping> &pool) {
    const uint64_t end = key.fd_offset + key.length;
    std::erase_if(peer.pools, [](const std::weak_ptr<shm::Mapping> &held) { return held.expired(); });
    for (const std::weak_ptr<shm::Mapping> &held : peer.pools) {
        std::shared_ptr<shm::Mapping> mapping = held.lock();
        if (mapping != nullptr && mapping->is(key.file) && mapping->size() >= end) {
            pool = std::move(mapping);
            return {};
        }
    }
    auto mapping =
        std::make_shared<shm::Mapping>(key.file, PROT_READ | PROT_WRITE, &peer.instance.counters.open_mapped_bytes);
    if (Status status = mapping->map(peer.process, key.fd); !status.ok())
        return status;
    if (mapping->size() < end)
        return fail(KVF_ERR_RANGE,
                    "a key of %s names %" PRIu64 " bytes from offset %" PRIu64 " of a memfd that has %" PRIu64,
                    peer.name.c_str(), key.length, key.fd_offset, mapping->size());
    peer.pools.push_back(mapping);
    pool = std::move(mapping);
    return {};
}

// A memfd that was found and is not what the key says is the peer's fault, which no other way mends.
bool is_final(const Status &status) {
    return status.code() == KVF_ERR_PROTOCOL || status.code() == KVF_ERR_RANGE ||
           status.code() == KVF_ERR_UNSUPPORTED || status.code() == KVF_ERR_PEER_LOST;
}

Status choose_way(kvf_peer &peer, const shm::Key &key, kvf_remote &remote) {
    Status mapped = peer.map_way;
    if (key.fd < 0) {
        mapped = fail(KVF_ERR_UNSUPPORTED, "its memory is not from kvf_memory_alloc, so it cannot be mapped");
    } else if (peer.map_way.ok()) {
        mapped = map_pool(peer, key, remote.pool);
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
    if (Status status = check(peer, key); !status.ok())
        return status;
    auto made = std::make_unique<kvf_remote>();
    made->peer = &peer;
    made->length = key.length;
    made->address = key.base;
    made->pool_offset = key.fd_offset;
    if (Status status = choose_way(peer, key, *made); !status.ok())
        return status;
    remote = std::move(made);
    return {};
}
