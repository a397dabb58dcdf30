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
    const char *name = params.name == nullptr ? "peer" : params.name;
    if (address.instance_id != params.instance_id)
        return fail(KVF_ERR_PROTOCOL, "the address from %s is of instance %016" PRIx64 ", and it is %016" PRIx64, name,
                    address.instance_id, params.instance_id);
    if (address.nonce == instance.cookie.nonce())
        return fail(KVF_ERR_PROTOCOL, "the address from %s is our own", name);
    auto made = std::make_unique<kvf_peer>(instance, address, name);
    if (Status status = shm::make_nonce(made->challenge_); !status.ok())
        return status;
    if (Status status = instance.cookie.reserve_answer(made->answer_slot_); !status.ok())
        return status;
    made->has_answer_slot_ = true;
    peer = std::move(made);
    return {};
}

kvf_peer::kvf_peer(kvf_instance &of, const shm::Address &at, const char *called)
    : instance(of), name(called), address(at), cookie(at.nonce, at.instance_id, at.cookie_fd, at.cookie_file) {}

kvf_peer::~kvf_peer() {
    if (has_answer_slot_)
        instance.cookie.remove_answer(answer_slot_);
}

shm::Greeting kvf_peer::greeting() const {
    shm::Greeting out{};
    out.challenge = challenge_;
    out.answer_slot = answer_slot_;
    return out;
}

Status kvf_peer::connect(const shm::Greeting &theirs) {
    if (connected)
        return fail(KVF_ERR_STATE, "%s is connected", name.c_str());
    if (Status status = shm::check_same_kernel(address, instance.self); !status.ok())
        return status;
    if (Status status = reach(); !status.ok())
        return {status.code(), name + ": " + status.sentence()};
    their_answer_slot_ = theirs.answer_slot;
    instance.cookie.answer(answer_slot_, theirs.challenge, address.nonce);
    connected = true;
    return {};
}

Status kvf_peer::reach() {
    const shm::ProcessId id{address.boot_id, address.pid_namespace, address.start_time, address.pid};
    if (Status status = shm::Process::open(id, process); !status.ok())
        return {status.code() == KVF_ERR_PEER_LOST ? KVF_ERR_UNREACHABLE : status.code(), status.sentence()};
    if (Status status = cookie.map(process); !status.ok())
        return status;
    cma_way = find_cma_way();
    if (cma_way.code() == KVF_ERR_UNREACHABLE)
        return cma_way;
    if (!instance.options.map)
        map_way = fail(KVF_ERR_UNSUPPORTED, "mapping is off (option map=off or cma=only)");
    if (!cma_way.ok() && !map_way.ok())
        return fail(cma_way.code(), "cannot reach its memory: %s; %s", map_way.sentence().c_str(),
                    cma_way.sentence().c_str());
    return {};
}

// KVF_ERR_UNREACHABLE: this is not the peer. Any other failure: this way is not open.
Status kvf_peer::find_cma_way() const {
    if (!instance.options.cma)
        return fail(KVF_ERR_UNSUPPORTED, "cross-memory attach is off (option cma=off)");
    switch (cookie.read(process.pid())) {
        case CookieState::held:
            return {};
        case CookieState::gone:
            return fail(KVF_ERR_UNREACHABLE, "process %d does not hold its cookie any more: its engine was closed",
                        process.pid());
        case CookieState::unknown:
            break;
    }
    return shm::refused(process, "process_vm_readv", errno);
}

Status kvf_peer::prove_answered() {
    if (!answered_ && !cookie.answers(their_answer_slot_, challenge_, instance.cookie.nonce()))
        return fail(KVF_ERR_UNREACHABLE,
                    "process %d does not know this connection: the address that came from %s is not its own, or it is "
                    "not connected",
                    process.pid(), name.c_str());
    answered_ = true;
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
