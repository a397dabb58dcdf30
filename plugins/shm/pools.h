// The parts of a peer's memfds that we have mapped. A part is a run of regions that lie side by side, as they stand in
// the peer's cookie: so an engine that cuts its tensors out of one pool takes one mapping, and memory that a peer has
// not registered takes none, however large the file is.
#pragma once

#include "peer_cookie.h"

#include <sys/mman.h>

#include <map>
#include <memory>

namespace shm {

class Pool {
  public:
    Pool(const FileId &file, uint64_t begin, Counter *gauge)
        : file_(file), begin_(begin), mapping_(PROT_READ | PROT_WRITE, gauge) {}

    // memfd: a descriptor of ours, which it does not keep.
    Status map(int memfd, uint64_t end);
    void unmap() { mapping_.unmap(); }

    bool covers(const RegionRecord &region) const;
    // Not once it is unmapped.
    char *at(uint64_t offset) const { return mapping_.data() + (offset - begin_); }

  private:
    const FileId file_;
    const uint64_t begin_;
    uint64_t end_ = 0;
    Mapping mapping_;
};

class Pools {
  public:
    // A peer may name as many memfds as it likes, and a process has 65530 mappings for all of its peers.
    static constexpr size_t kMost = 256;

    // The pool that the region lies in, mapped if it is not yet. It lasts as long as somebody holds it.
    Status get(const Process &process, const PeerCookie &cookie, const RegionRecord &region, Counter *gauge,
               std::shared_ptr<Pool> &pool);
    // All, while those who hold them go on to.
    void unmap();

  private:
    struct Place {
        uint64_t device, inode, begin;
        friend auto operator<=>(const Place &, const Place &) = default;
    };
    using Held = std::multimap<Place, std::weak_ptr<Pool>>;

    std::shared_ptr<Pool> find(const RegionRecord &region) const;
    void drop_released();

    Held held_;
};

} // namespace shm
