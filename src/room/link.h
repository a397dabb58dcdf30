// What shards know of another engine: the transport chosen for it, and where its tensors are. Made by the control
// thread when a handshake is through, shared by the rooms that use it; immutable, but for being lost.
#pragma once

#include "plugin/transport.h"
#include "room/layout.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvf {

// How the pages of one tensor go from here to the peer. A page is `rows` pieces of `length` bytes.
struct TensorRoute {
    uint32_t layer = 0;
    kvf_region *local = nullptr;
    kvf_remote *remote = nullptr;
    uint64_t local_offset = 0, remote_offset = 0;           // of the first piece of page 0, in the regions
    uint64_t local_page_stride = 0, remote_page_stride = 0; // from page to page
    uint64_t length = 0;
    uint64_t rows = 1;
    uint64_t local_row_stride = 0, remote_row_stride = 0; // from piece to piece

    uint64_t page_bytes() const { return rows * length; }
};

struct GroupRoute {
    uint32_t group = 0;
    uint64_t local_pages = 0, remote_pages = 0; // the fewest of its tensors
    std::vector<TensorRoute> tensors;           // sorted by layer
};

// Sender side: all that is needed to plan a chunk for a peer. Empty on the receiving side.
struct Routes {
    std::vector<GroupRoute> groups; // sorted by group

    const GroupRoute *find(uint32_t group) const;
};

class Link {
  public:
    // released runs on whatever thread drops the last reference; control uses it to end the peer in the transport.
    Link(uint64_t id, uint64_t instance, uint32_t rank, std::string name, std::shared_ptr<Transport> transport,
         kvf_peer *peer, std::function<void()> released)
        : id(id),
          instance(instance),
          rank(rank),
          name(std::move(name)),
          transport(std::move(transport)),
          peer(peer),
          released_(std::move(released)) {}
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;
    ~Link() { released_(); }

    // Before the transport is asked for a fence, which makes what is under way fail: the reason for that is the loss,
    // and LinkLost brings it to every shard.
    void lose() const { lost_.store(true, std::memory_order_release); }
    bool lost() const { return lost_.load(std::memory_order_acquire); }

    const uint64_t id;       // of the connection; never used again in this engine
    const uint64_t instance; // of the other engine
    const uint32_t rank;     // its global rank
    const std::string name;  // for sentences: its name and address
    const std::shared_ptr<Transport> transport;
    kvf_peer *const peer; // the transport's; valid while this Link lives

  private:
    std::function<void()> released_;
    mutable std::atomic<bool> lost_{false};
};

using LinkRef = std::shared_ptr<const Link>;
using RoutesRef = std::shared_ptr<const Routes>;

} // namespace kvf
