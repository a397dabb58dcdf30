// A prefill engine's shard and its peers, which a fuzzer makes lie: memory, links, what was offered and sent, and what
// may therefore have been written where.
#pragma once

#include "../unit/shard_joint.h"

#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace kvf::fuzz {

constexpr size_t kPeers = 2;

// The pages that room ids have named: by (room id, group).
using Named = std::map<std::pair<uint64_t, uint32_t>, std::set<uint32_t>>;

struct Peer {
    std::unique_ptr<Side> side;
    Joint joint;
    Named offered; // to prefill, by whomever
};

class Peers {
  public:
    Peers();
    // Everything is over, and nothing was written but where it may be.
    ~Peers();

    Side &prefill() { return prefill_; }
    Peer &peer(size_t index) { return peers_[index]; }

    void offer(size_t peer, OfferCame &&offer);
    void send(RoomHandle room, uint64_t id, std::vector<PageList> lists, const ChunkShape &shape);

    // What the shards have said so far gets to where an honest control plane brings it.
    void carry();
    void drop();
    void advance();
    void pass(uint64_t ns);
    // The connection breaks and is fenced.
    void lose(size_t peer);
    void connect(size_t peer);

  private:
    void carry_from_prefill(ToControl &&message);
    void carry_from(size_t peer, ToControl &&message);
    size_t peer_of(uint64_t link_at_prefill) const;
    void end_all(Side &side);
    void check_memory(Peer &peer);
    bool written_well(Peer &peer, const Tensor &tensor, uint32_t page);

    uint64_t next_link_ = 100;
    Side prefill_;
    std::vector<uint8_t> before_; // prefill's memory
    Named sent_;                  // from prefill's pages
    std::array<Peer, kPeers> peers_;
};

} // namespace kvf::fuzz
