// The fence: what is proven before memory that a peer could write, or that we could write at a peer, may be used anew.
#include "instance.h"
#include "peer.h"

using shm::CookieState;
using shm::fail;
using shm::Status;

namespace {

// An instance that was closed has no lanes any more, and one whose process called exec has lost its memory. Only a
// cookie that was once found can be gone. Its process is trusted to tell the truth here: one that lies could as well
// have handed on its mapping of our memory, against which no fence helps.
bool was_closed(const kvf_peer &peer) {
    return peer.connected && peer.cookie.ask(peer.process) == CookieState::gone;
}

} // namespace

// Ours first: they end whatever the rest says, and the peer is of no more use for posts. Then the peer's: its writes
// end with its process or its instance, and the kernel has no other end for them, since a mapping that a peer holds
// cannot be taken away from it.
Status kvf_peer::fence() {
    gate.shut();
    pools.unmap();
    if (!shm::check_same_kernel(address, instance.self).ok())
        return {}; // out of reach in both directions alike
    if (!process) {
        // Never connected from here, but the other direction may be.
        const shm::ProcessId id{address.boot_id, address.pid_namespace, address.start_time, address.pid};
        Status status = shm::Process::open(id, process);
        if (status.code() == KVF_ERR_PEER_LOST)
            return {};
        if (!status.ok())
            return status;
    }
    if (!alive() || was_closed(*this))
        return {};
    return fail(KVF_ERR_BUSY, "process %d of %s is alive with its engine open, and may have our memory mapped",
                process.pid(), name.c_str());
}
