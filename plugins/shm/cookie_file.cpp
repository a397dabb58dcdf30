#include "cookie_file.h"

#include <sys/random.h>

#include <cerrno>

namespace shm {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

} // namespace

void RegionSlot::write(const RegionRecord &record, uint64_t serial) {
    serial_.store(0, kRelaxed);
    std::atomic_thread_fence(std::memory_order_release);
    base_.store(record.base, kRelaxed);
    length_.store(record.length, kRelaxed);
    device_.store(record.file.device, kRelaxed);
    inode_.store(record.file.inode, kRelaxed);
    fd_offset_.store(record.fd_offset, kRelaxed);
    fd_.store(static_cast<uint32_t>(record.fd), kRelaxed);
    serial_.store(serial, std::memory_order_release);
}

std::optional<RegionRecord> RegionSlot::read(uint64_t serial) const {
    if (serial == 0 || serial_.load(std::memory_order_acquire) != serial)
        return std::nullopt;
    RegionRecord out;
    out.base = base_.load(kRelaxed);
    out.length = length_.load(kRelaxed);
    out.file = {device_.load(kRelaxed), inode_.load(kRelaxed)};
    out.fd_offset = fd_offset_.load(kRelaxed);
    out.fd = static_cast<int32_t>(fd_.load(kRelaxed));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (serial_.load(kRelaxed) != serial)
        return std::nullopt;
    return out;
}

void AnswerSlot::write(const Nonce &challenge, const Nonce &peer) {
    for (size_t i = 0; i < challenge.size(); ++i) {
        challenge_[i].store(challenge[i], kRelaxed);
        peer_[i].store(peer[i], std::memory_order_release);
    }
}

bool AnswerSlot::holds(const Nonce &challenge, const Nonce &peer) const {
    bool same = true;
    for (size_t i = 0; i < challenge.size(); ++i) {
        same = same && peer_[i].load(std::memory_order_acquire) == peer[i];
        same = same && challenge_[i].load(kRelaxed) == challenge[i];
    }
    return same;
}

Status make_nonce(Nonce &nonce) {
    if (getrandom(nonce.data(), sizeof nonce, 0) != static_cast<ssize_t>(sizeof nonce))
        return fail(KVF_ERR_SYSTEM, "getrandom: %s", errno_text(errno));
    return {};
}

} // namespace shm
