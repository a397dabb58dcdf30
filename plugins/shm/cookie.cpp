#include "cookie.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <new>

namespace shm {

Status Cookie::bake(uint64_t instance_id) {
    if (Status status = make_nonce(nonce_); !status.ok())
        return status;
    memfd_ = Fd(memfd_create("kvferry-shm-cookie", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memfd_ || ftruncate(memfd_.get(), sizeof(CookieFile)) != 0)
        return fail(KVF_ERR_SYSTEM, "cannot make the cookie's memfd: %s", errno_text(errno));
    void *data = mmap(nullptr, sizeof(CookieFile), PROT_READ | PROT_WRITE, MAP_SHARED, memfd_.get(), 0);
    if (data == MAP_FAILED)
        return fail(KVF_ERR_SYSTEM, "cannot map the cookie: %s", errno_text(errno));
    // Not constructed: zero is what every word of it begins with, and a page that is written to takes memory.
    file_ = static_cast<CookieFile *>(data);
    owner_ = getpid();
    // From here on this is the only mapping that writes.
    if (fcntl(memfd_.get(), F_ADD_SEALS, kCookieSeals) != 0)
        return fail(KVF_ERR_SYSTEM, "cannot seal the cookie's memfd: %s", errno_text(errno));
    uint64_t size = 0;
    if (Status status = inspect_memfd(memfd_.get(), id_, size); !status.ok())
        return status;
    file_->head.instance_id.store(instance_id, std::memory_order_relaxed);
    file_->head.address.store(reinterpret_cast<uintptr_t>(&file_->head), std::memory_order_relaxed);
    for (size_t i = 0; i < nonce_.size(); ++i)
        file_->head.nonce[i].store(nonce_[i], std::memory_order_release);
    return {};
}

Cookie::~Cookie() {
    if (file_ == nullptr)
        return;
    if (is_ours()) {
        for (Word &word : file_->head.nonce)
            word.store(0, std::memory_order_release);
    }
    munmap(file_, sizeof(CookieFile));
}

bool Cookie::is_ours() const {
    return owner_ == getpid();
}

Status Cookie::add(const RegionRecord &record, uint32_t &slot, uint64_t &serial) {
    if (!region_slots_.take(slot))
        return fail(KVF_ERR_TRANSPORT, "%zu regions are registered, more than that shm does not take",
                    CookieFile::kRegions);
    serial = ++serials_;
    if (!is_ours())
        return {};
    file_->regions[slot].write(record, serial);
    file_->head.region_slots.store(region_slots_.used(), std::memory_order_release);
    return {};
}

void Cookie::remove_region(uint32_t slot) {
    if (is_ours())
        file_->regions[slot].clear();
    region_slots_.give_back(slot);
}

Status Cookie::reserve_answer(uint32_t &slot) {
    if (!answer_slots_.take(slot))
        return fail(KVF_ERR_TRANSPORT, "there are %zu peers, more than that shm does not take", CookieFile::kPeers);
    return {};
}

void Cookie::answer(uint32_t slot, const Nonce &challenge, const Nonce &peer) {
    if (is_ours())
        file_->answers[slot].write(challenge, peer);
}

void Cookie::remove_answer(uint32_t slot) {
    if (is_ours())
        file_->answers[slot].clear();
    answer_slots_.give_back(slot);
}

} // namespace shm
