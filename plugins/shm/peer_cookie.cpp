#include "peer_cookie.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>

namespace shm {
namespace {

// Of the peer's own making, or of somebody's who could write into the peer's memory: a pool, say, that its own peers
// write to. Only what bears a cookie's seals is the instance's own word.
Status check_cookie(int memfd, const Process &process) {
    FileId id;
    uint64_t size = 0;
    Status status = inspect_memfd(memfd, id, size);
    if (!status.ok() || size != sizeof(CookieFile) || (fcntl(memfd, F_GET_SEALS) & kCookieSeals) != kCookieSeals)
        return fail(KVF_ERR_UNREACHABLE, "what process %d has where its address says is no cookie of shm",
                    process.pid());
    return {};
}

} // namespace

Status PeerCookie::map(const Process &process) {
    Fd memfd;
    Status status = open_memfd_of(process, fd_, id_, memfd);
    if (status.code() == KVF_ERR_PROTOCOL)
        return fail(KVF_ERR_UNREACHABLE,
                    "its cookie is not where its address says, its engine was closed or the address is not its own: %s",
                    status.sentence().c_str());
    if (!status.ok())
        return status;
    if (status = check_cookie(memfd.get(), process); !status.ok())
        return status;
    if (status = mapping_.map(memfd.get(), 0, sizeof(CookieFile)); !status.ok())
        return status;
    if (look() != CookieState::held)
        return fail(KVF_ERR_UNREACHABLE, "its cookie holds another nonce than its address: its engine was closed");
    const uint64_t found = file().head.instance_id.load(std::memory_order_relaxed);
    if (found != instance_id_)
        return fail(KVF_ERR_UNREACHABLE, "its cookie is of instance %016" PRIx64 " and its address of %016" PRIx64,
                    found, instance_id_);
    return {};
}

CookieState PeerCookie::look() const {
    if (mapping_.data() == nullptr)
        return CookieState::unknown;
    for (size_t i = 0; i < nonce_.size(); ++i) {
        if (file().head.nonce[i].load(std::memory_order_acquire) != nonce_[i])
            return CookieState::gone;
    }
    return CookieState::held;
}

CookieState PeerCookie::read(pid_t pid) const {
    Nonce found{};
    const iovec ours{found.data(), sizeof found};
    const uint64_t address = file().head.address.load(std::memory_order_relaxed);
    const iovec theirs{reinterpret_cast<void *>(address), sizeof found}; // NOLINT(performance-no-int-to-ptr)
    const ssize_t moved = process_vm_readv(pid, &ours, 1, &theirs, 1, 0);
    if (moved < 0 && errno != EFAULT)
        return CookieState::unknown;
    return moved == static_cast<ssize_t>(sizeof found) && found == nonce_ ? CookieState::held : CookieState::gone;
}

CookieState PeerCookie::ask(const Process &process) const {
    if (look() == CookieState::gone)
        return CookieState::gone;
    Fd memfd;
    const Status status = open_memfd_of(process, fd_, id_, memfd);
    if (status.code() == KVF_ERR_PROTOCOL)
        return CookieState::gone;
    return status.ok() ? CookieState::held : CookieState::unknown;
}

// No further than the instance says that it has written: to read on would make memory for the peer's file.
size_t PeerCookie::region_slots() const {
    return std::min<uint64_t>(file().head.region_slots.load(std::memory_order_acquire), CookieFile::kRegions);
}

std::optional<RegionRecord> PeerCookie::region(uint64_t slot, uint64_t serial) const {
    if (slot >= region_slots())
        return std::nullopt;
    return file().regions[slot].read(serial);
}

std::vector<RegionRecord> PeerCookie::regions_of(const FileId &id) const {
    std::vector<RegionRecord> out;
    const size_t used = region_slots();
    for (size_t i = 0; i < used; ++i) {
        const std::optional<RegionRecord> found = file().regions[i].read();
        if (found && found->fd >= 0 && found->file == id)
            out.push_back(*found);
    }
    return out;
}

bool PeerCookie::answers(uint64_t slot, const Nonce &challenge, const Nonce &ours) const {
    return slot < CookieFile::kPeers && file().answers[slot].holds(challenge, ours);
}

} // namespace shm
