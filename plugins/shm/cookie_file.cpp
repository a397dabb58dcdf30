#include "cookie_file.h"

#include <sys/random.h>

#include <cerrno>

namespace shm {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

} // namespace

// Each field releases the 0 before it: who has read one of the new fields finds no old serial behind them.
void RegionSlot::write(const RegionRecord &record, uint64_t serial) {
    serial_.store(0, kRelaxed);
    base_.store(record.base, kRelease);
    length_.store(record.length, kRelease);
    device_.store(record.file.device, kRelease);
    inode_.store(record.file.inode, kRelease);
    fd_offset_.store(record.fd_offset, kRelease);
    fd_.store(static_cast<uint32_t>(record.fd), kRelease);
    serial_.store(serial, kRelease);
}

std::optional<RegionRecord> RegionSlot::read(uint64_t serial) const {
    if (serial == 0 || serial_.load(kAcquire) != serial)
        return std::nullopt;
    RegionRecord out;
    out.base = base_.load(kAcquire);
    out.length = length_.load(kAcquire);
    out.file = {device_.load(kAcquire), inode_.load(kAcquire)};
    out.fd_offset = fd_offset_.load(kAcquire);
    out.fd = static_cast<int32_t>(fd_.load(kAcquire));
    if (serial_.load(kRelaxed) != serial)
        return std::nullopt;
    return out;
}

void AnswerSlot::write(const Nonce &challenge, const Nonce &peer) {
    for (size_t i = 0; i < challenge.size(); ++i) {
        challenge_[i].store(challenge[i], kRelaxed);
        peer_[i].store(peer[i], kRelease);
    }
}

bool AnswerSlot::holds(const Nonce &challenge, const Nonce &peer) const {
    bool same = true;
    for (size_t i = 0; i < challenge.size(); ++i) {
        same = same && peer_[i].load(kAcquire) == peer[i];
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
