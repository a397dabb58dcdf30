// The cookie: a page that holds an instance's nonce for as long as the instance is open. A peer that reads the nonce
// there has the very instance before it that wrote the address; one that no longer finds it knows that the instance
// was closed (or its process replaced by exec), and with it its lanes and mappings.
#pragma once

#include "memfd.h"

#include <array>
#include <atomic>

namespace shm {

using Nonce = std::array<uint64_t, 2>;

// Stands alone in its page. Atomic, since the peer reads while close writes.
struct CookiePage {
    std::array<std::atomic<uint64_t>, 2> nonce;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "another process has no share in a lock");
static_assert(sizeof(CookiePage) == sizeof(Nonce), "read as plain bytes by process_vm_readv");

// Our own. The page is a memfd, so that a peer reads it in the same two ways as it reaches our regions.
class Cookie {
  public:
    Cookie() = default;
    Cookie(const Cookie &) = delete;
    Cookie &operator=(const Cookie &) = delete;
    ~Cookie();

    Status bake();

    const Nonce &nonce() const { return nonce_; }
    const void *address() const { return page_; }
    int fd() const { return memfd_.get(); }
    const FileId &file() const { return file_; }

  private:
    Nonce nonce_{};
    Fd memfd_;
    FileId file_;
    CookiePage *page_ = nullptr;
    pid_t owner_ = 0;
};

enum class CookieState {
    held,   // the instance is open
    gone,   // it is not
    unknown // the page could not be read
};

// A peer's, as its address names it.
class PeerCookie {
  public:
    PeerCookie(const Nonce &nonce, uint64_t address, const FileId &file);

    // By cross-memory attach. It also proves that the pid is the peer's and its memory the one that the address was
    // given for, at this moment. errno is set when the state is unknown.
    CookieState read(pid_t pid) const;

    // By map, which needs no system call afterwards.
    Status map(const Process &process, int fd);
    CookieState look() const;

  private:
    Nonce nonce_;
    uint64_t address_;
    Mapping page_;
};

} // namespace shm
