#include "peer.h"

#include "instance.h"
#include "permission.h"

#include <cerrno>
#include <cinttypes>

using shm::CookieState;
using shm::fail;
using shm::Status;

Status shm::check_same_kernel(const Address &address, const ProcessId &self) {
    if (address.boot_id != self.boot_id)
        return fail(KVF_ERR_UNREACHABLE, "the peer is on another host: its boot id is %s, ours %s",
                    boot_id_text(address.boot_id).c_str(), boot_id_text(self.boot_id).c_str());
    if (address.pid_namespace != self.pid_namespace)
        return fail(KVF_ERR_UNREACHABLE,
                    "the peer is in another pid namespace (container): its is %" PRIu64 ", ours %" PRIu64,
                    address.pid_namespace, self.pid_namespace);
    return {};
}

Status kvf_peer::create(kvf_instance &instance, const kvf_peer_params &params, std::unique_ptr<kvf_peer> &peer) {
    if (params.struct_size < sizeof params)
        return fail(KVF_ERR_INVALID, "kvf_peer_params has %u bytes; shm reads %zu", params.struct_size, sizeof params);
    shm::Address address{};
    if (Status status = shm::decode(params.address, params.address_size, address); !status.ok())
        return status;
    if (address.pid <= 0)
        return fail(KVF_ERR_PROTOCOL, "the peer's address names process %d", address.pid);
    peer = std::make_unique<kvf_peer>(instance, address, params.name == nullptr ? "peer" : params.name);
    return {};
}

kvf_peer::kvf_peer(kvf_instance &of, const shm::Address &at, const char *called)
    : instance(of), name(called), address(at), cookie(at.nonce, at.cookie_address, at.cookie_file) {}

Status kvf_peer::connect() {
    if (connected)
        return fail(KVF_ERR_STATE, "%s is connected", name.c_str());
    if (Status status = shm::check_same_kernel(address, instance.self); !status.ok())
        return status;
    const shm::ProcessId id{address.boot_id, address.pid_namespace, address.start_time, address.pid};
    if (Status status = shm::Process::open(id, process); !status.ok())
        return {status.code() == KVF_ERR_PEER_LOST ? KVF_ERR_UNREACHABLE : status.code(), status.sentence()};
    cma_way = prove_by_cma();
    if (cma_way.code() == KVF_ERR_UNREACHABLE)
        return cma_way;
    map_way = prove_by_map();
    if (map_way.code() == KVF_ERR_UNREACHABLE)
        return map_way;
    if (!cma_way.ok() && !map_way.ok())
        return fail(instance.options.cma ? cma_way.code() : map_way.code(), "cannot reach the memory of %s: %s; %s",
                    name.c_str(), map_way.sentence().c_str(), cma_way.sentence().c_str());
    connected = true;
    return {};
}

// Either proof ends in one of: ok; KVF_ERR_UNREACHABLE, this is not the peer; any other, this way is not open.

Status kvf_peer::prove_by_cma() {
    if (!instance.options.cma)
        return fail(KVF_ERR_UNSUPPORTED, "cross-memory attach is off (option cma=off)");
    switch (cookie.read(process.pid())) {
        case CookieState::held:
            return {};
        case CookieState::gone:
            return fail(KVF_ERR_UNREACHABLE,
                        "process %d does not hold the cookie of %s: its engine was closed, or the "
                        "address is not its own",
                        process.pid(), name.c_str());
        case CookieState::unknown:
            break;
    }
    return shm::refused(process, "process_vm_readv", errno);
}

Status kvf_peer::prove_by_map() {
    if (!instance.options.map)
        return fail(KVF_ERR_UNSUPPORTED, "mapping is off (option map=off or cma=only)");
    Status status = cookie.map(process, address.cookie_fd);
    if (status.code() == KVF_ERR_PROTOCOL || status.code() == KVF_ERR_RANGE)
        return {KVF_ERR_UNREACHABLE, "the cookie of " + name + " is not where its address says: " + status.sentence()};
    if (!status.ok())
        return status;
    if (cookie.look() != CookieState::held)
        return fail(KVF_ERR_UNREACHABLE, "the cookie of %s holds another nonce: its engine was closed", name.c_str());
    return {};
}

Status kvf_peer::standing() const {
    if (dead_.load(std::memory_order_relaxed))
        return fail(KVF_ERR_PEER_LOST, "%s (process %d) has died", name.c_str(), process.pid());
    if (cookie.look() == CookieState::gone)
        return fail(KVF_ERR_PEER_CLOSED, "%s was closed", name.c_str());
    return {};
}

bool kvf_peer::alive() {
    if (process.alive())
        return true;
    dead_.store(true, std::memory_order_relaxed);
    return false;
}
