// A peer's region, and the way by which it is reached.
#pragma once

#include "peer.h"

struct kvf_remote final {
    static shm::Status import(kvf_peer &peer, const shm::Key &key, std::unique_ptr<kvf_remote> &remote);

    // Only inside the peer's gate: a fence unmaps.
    char *data() const { return pool->at(pool_offset); }

    const kvf_peer *peer = nullptr;
    uint64_t length = 0;
    std::shared_ptr<shm::Pool> pool; // NULL: by cross-memory attach
    uint64_t pool_offset = 0;        // in the memfd
    uint64_t address = 0;            // in the peer's process
};
