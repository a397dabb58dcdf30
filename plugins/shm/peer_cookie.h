// A peer's cookie, as we map it: who the peer is, what it has registered, and whether it answers our challenge.
#pragma once

#include "cookie_file.h"

#include <sys/mman.h>

#include <vector>

namespace shm {

enum class CookieState {
    held,   // the instance is open
    gone,   // it is not
    unknown // the page could not be read
};

class PeerCookie {
  public:
    // fd is the number that the file has in the peer's process, as the peer says.
    PeerCookie(const Nonce &nonce, uint64_t instance_id, int fd, const FileId &file)
        : nonce_(nonce), instance_id_(instance_id), fd_(fd), id_(file), mapping_(PROT_READ, nullptr) {}

    // Maps it, if it is there and is the one of that nonce and instance. Else KVF_ERR_UNREACHABLE, or what keeps us
    // from getting at it.
    Status map(const Process &process);

    // The others but look need it mapped.

    // By the mapping, without a system call: tells of an instance that was closed.
    CookieState look() const;
    // By cross-memory attach. It also proves that the pid is the peer's and its memory the one that the cookie names,
    // at this moment. errno is set when the state is unknown.
    CookieState read(pid_t pid) const;
    // By the process's descriptors: tells also of an instance whose process has replaced itself by exec, which closes
    // them and leaves what is mapped elsewhere as it was. For what is not done at each post.
    CookieState ask(const Process &process) const;

    // The region that stands in that place and has that serial, if any does.
    std::optional<RegionRecord> region(uint64_t slot, uint64_t serial) const;
    // All that lie in that memfd.
    std::vector<RegionRecord> regions_of(const FileId &file) const;

    // Whether the instance says in that place that it was given this challenge by an instance of that nonce.
    bool answers(uint64_t slot, const Nonce &challenge, const Nonce &ours) const;

  private:
    size_t region_slots() const;
    const CookieFile &file() const { return *reinterpret_cast<const CookieFile *>(mapping_.data()); }

    Nonce nonce_;
    uint64_t instance_id_;
    int fd_;
    FileId id_;
    Mapping mapping_;
};

} // namespace shm
