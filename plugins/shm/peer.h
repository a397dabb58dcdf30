// Another instance: the process that it lives in, and the ways by which its memory is reached.
#pragma once

#include "blob.h"
#include "gate.h"
#include "peer_cookie.h"
#include "pools.h"
#include "process.h"

#include <kvferry/plugin.h>

#include <memory>

struct kvf_peer final {
    static shm::Status create(kvf_instance &instance, const kvf_peer_params &params, std::unique_ptr<kvf_peer> &peer);
    kvf_peer(kvf_instance &instance, const shm::Address &address, const char *name);
    kvf_peer(const kvf_peer &) = delete;
    kvf_peer &operator=(const kvf_peer &) = delete;
    ~kvf_peer();

    shm::Greeting greeting() const;
    // Proves that the address is a living instance's and answers the peer's greeting.
    shm::Status connect(const shm::Greeting &theirs);
    // Proves that this instance is the one that greeted us: it has our challenge in its cookie. Only after the peer
    // has connected too, so it is left to the first import.
    shm::Status prove_answered();
    shm::Status fence(); // fence.cpp

    // For lanes. Whether it can be posted to, as far as one can tell without asking the kernel.
    shm::Status standing() const;
    // Asks the kernel. Once dead it stays so.
    bool alive();

    kvf_instance &instance;
    const std::string name;
    const shm::Address address;
    shm::Process process;
    shm::PeerCookie cookie;
    shm::Gate gate;
    bool connected = false;
    // Ok when that way to its memory is open, else why it is not.
    shm::Status map_way;
    shm::Status cma_way;
    shm::Pools pools;

  private:
    shm::Status reach();
    shm::Status find_cma_way() const;

    shm::Nonce challenge_{};
    uint32_t answer_slot_ = 0; // in our cookie
    bool has_answer_slot_ = false;
    uint64_t their_answer_slot_ = 0; // in theirs
    bool answered_ = false;
    std::atomic<bool> dead_{false};
};

namespace shm {

// KVF_ERR_UNREACHABLE with both values, when pids of the one mean nothing to the other.
Status check_same_kernel(const Address &address, const ProcessId &self);

} // namespace shm
