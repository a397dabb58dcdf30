#include "cma.h"

#include "status.h"

#include <algorithm>
#include <cerrno>

namespace shm {
namespace {

// How often a call that the kernel asks to repeat is repeated, before that is an error too.
constexpr int kRepeats = 100;

bool readable_in(pid_t pid, void *address) {
    char byte = 0;
    const iovec ours{&byte, 1};
    const iovec theirs{address, 1};
    return process_vm_readv(pid, &ours, 1, &theirs, 1, 0) == 1;
}

ssize_t call_kernel(uint32_t op, pid_t pid, const iovec *local, const iovec *remote, size_t count) {
    ssize_t moved = 0;
    for (int i = 0; i < kRepeats; ++i) {
        moved = op == KVF_OP_WRITE ? process_vm_writev(pid, local, count, remote, count, 0)
                                   : process_vm_readv(pid, local, count, remote, count, 0);
        if (moved >= 0 || (errno != EINTR && errno != EAGAIN))
            break;
    }
    return moved;
}

} // namespace

void CmaBatch::clear() {
    count_ = 0;
    bytes_ = 0;
}

uint64_t CmaBatch::add(char *local, uint64_t remote, uint64_t length) {
    const uint64_t taken = std::min(length, kBytes - bytes_);
    local_[count_] = {local, taken};
    remote_[count_] = {reinterpret_cast<void *>(remote), taken}; // NOLINT(performance-no-int-to-ptr)
    ++count_;
    bytes_ += taken;
    return taken;
}

// The calls take a pid and not a pidfd, and a pid can change hands. So the cookie is read by the same kind of call
// right before: it proves that the pid is the peer's. That leaves the moment between the two calls, in which the peer
// would have to end, be reaped, and its number come round again; the kernel looks the pid up once at the start of a
// call. The lane asks the pidfd once more after the copy: the peer alive then had its number all along.
void CmaBatch::run(uint32_t op, kvf_peer &peer, Completion &completion) {
    const char *call = op == KVF_OP_WRITE ? "process_vm_writev" : "process_vm_readv";
    const pid_t pid = peer.process.pid();
    const CookieState cookie = peer.cookie.read(pid);
    if (cookie == CookieState::unknown) {
        word_failure("process_vm_readv", errno, 0, peer, completion);
    } else if (cookie == CookieState::gone) {
        if (peer.alive())
            completion.fail(KVF_ERR_PEER_CLOSED, "%s was closed", peer.name.c_str());
        else
            completion.fail(KVF_ERR_PEER_LOST, "%s (process %d) has died", peer.name.c_str(), pid);
    }
    for (size_t first = 0; completion.ok() && first < count_;) {
        const ssize_t moved = call_kernel(op, pid, &local_[first], &remote_[first], count_ - first);
        if (moved > 0) {
            completion.moved(static_cast<uint64_t>(moved));
            first = advance(first, static_cast<uint64_t>(moved));
        } else {
            word_failure(call, moved < 0 ? errno : EIO, first, peer, completion);
        }
    }
    clear();
}

// The piece at which the next call goes on; what was moved of it is cut off.
size_t CmaBatch::advance(size_t first, uint64_t moved) {
    while (moved > 0 && first < count_) {
        iovec &local = local_[first];
        iovec &remote = remote_[first];
        const size_t part = std::min<uint64_t>(moved, local.iov_len);
        local = {static_cast<char *>(local.iov_base) + part, local.iov_len - part};
        remote = {static_cast<char *>(remote.iov_base) + part, remote.iov_len - part};
        moved -= part;
        if (local.iov_len == 0)
            ++first;
    }
    return first;
}

void CmaBatch::word_failure(const char *call, int error, size_t first, kvf_peer &peer, Completion &completion) const {
    const pid_t pid = peer.process.pid();
    const iovec &remote = remote_[first];
    if (error == ESRCH || !peer.alive())
        completion.fail(KVF_ERR_PEER_LOST, "%s: %s (process %d) has died", call, peer.name.c_str(), pid);
    else if (error == EPERM)
        completion.fail(KVF_ERR_PERMISSION,
                        "%s to process %d was permitted when %s was connected and is not now: it changed its uid or "
                        "is no longer dumpable, or we did",
                        call, pid, peer.name.c_str());
    else if (error == EFAULT && readable_in(pid, remote.iov_base))
        completion.fail(KVF_ERR_TRANSPORT, "%s: our memory at %p, or writing to %p of %s, is not mapped so", call,
                        local_[first].iov_base, remote.iov_base, peer.name.c_str());
    else if (error == EFAULT)
        completion.fail(KVF_ERR_TRANSPORT, "%s: %p of %s (process %d) is not mapped", call, remote.iov_base,
                        peer.name.c_str(), pid);
    else
        completion.fail(KVF_ERR_TRANSPORT, "%s of %zu pieces with process %d: %s", call, count_ - first, pid,
                        errno_text(error));
}

} // namespace shm
