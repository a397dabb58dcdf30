#include "cookie.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>

#include <cerrno>
#include <new>

namespace shm {

Status Cookie::bake() {
    if (getrandom(nonce_.data(), sizeof nonce_, 0) != static_cast<ssize_t>(sizeof nonce_))
        return fail(KVF_ERR_SYSTEM, "getrandom: %s", errno_text(errno));
    memfd_ = Fd(memfd_create("kvferry-shm-cookie", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memfd_ || ftruncate(memfd_.get(), sizeof(CookiePage)) != 0 ||
        fcntl(memfd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return fail(KVF_ERR_SYSTEM, "cannot make the cookie's memfd: %s", errno_text(errno));
    uint64_t size = 0;
    if (Status status = inspect_memfd(memfd_.get(), file_, size); !status.ok())
        return status;
    void *page = mmap(nullptr, sizeof(CookiePage), PROT_READ | PROT_WRITE, MAP_SHARED, memfd_.get(), 0);
    if (page == MAP_FAILED)
        return fail(KVF_ERR_SYSTEM, "cannot map the cookie: %s", errno_text(errno));
    page_ = new (page) CookiePage;
    owner_ = getpid();
    for (size_t i = 0; i < nonce_.size(); ++i)
        page_->nonce[i].store(nonce_[i], std::memory_order_release);
    return {};
}

Cookie::~Cookie() {
    if (page_ == nullptr)
        return;
    // A child after fork shares the page with the instance that lives on in its parent.
    if (owner_ == getpid()) {
        for (std::atomic<uint64_t> &word : page_->nonce)
            word.store(0, std::memory_order_release);
    }
    munmap(page_, sizeof(CookiePage));
}

PeerCookie::PeerCookie(const Nonce &nonce, uint64_t address, const FileId &file)
    : nonce_(nonce), address_(address), page_(file, PROT_READ, nullptr) {}

CookieState PeerCookie::read(pid_t pid) const {
    Nonce found{};
    const iovec ours{found.data(), sizeof found};
    const iovec theirs{reinterpret_cast<void *>(address_), sizeof found}; // NOLINT(performance-no-int-to-ptr)
    const ssize_t moved = process_vm_readv(pid, &ours, 1, &theirs, 1, 0);
    if (moved < 0 && errno != EFAULT)
        return CookieState::unknown;
    return moved == static_cast<ssize_t>(sizeof found) && found == nonce_ ? CookieState::held : CookieState::gone;
}

// A file of any size but none has a whole page to look at, zero behind its end.
Status PeerCookie::map(const Process &process, int fd) {
    return page_.map(process, fd);
}

CookieState PeerCookie::look() const {
    if (page_.data() == nullptr)
        return CookieState::unknown;
    const auto *page = reinterpret_cast<const CookiePage *>(page_.data());
    for (size_t i = 0; i < nonce_.size(); ++i) {
        if (page->nonce[i].load(std::memory_order_acquire) != nonce_[i])
            return CookieState::gone;
    }
    return CookieState::held;
}

} // namespace shm
