// Another instance: the process that it lives in, and the ways by which its memory is reached.
#pragma once

#include "blob.h"
#include "cookie.h"
#include "gate.h"
#include "memfd.h"
#include "process.h"

#include <kvferry/plugin.h>

#include <memory>
#include <vector>

struct kvf_peer final {
    static shm::Status create(kvf_instance &instance, const kvf_peer_params &params, std::unique_ptr<kvf_peer> &peer);
    kvf_peer(kvf_instance &instance, const shm::Address &address, const char *name);

    shm::Status connect();
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
    // The memfds that are mapped, each as long as a key of it is held.
    std::vector<std::weak_ptr<shm::Mapping>> pools;

  private:
    shm::Status prove_by_cma();
    shm::Status prove_by_map();

    std::atomic<bool> dead_{false};
};

namespace shm {

// KVF_ERR_UNREACHABLE with both values, when pids of the one mean nothing to the other.
Status check_same_kernel(const Address &address, const ProcessId &self);

} // namespace shm
