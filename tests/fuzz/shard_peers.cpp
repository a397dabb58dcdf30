#include "shard_peers.h"

#include "holds.h"

#include <algorithm>
#include <cstring>

namespace kvf::fuzz {
namespace {

constexpr const char *kTransport = "memory?depth=4,slow=1";
constexpr uint32_t kSlots = 16;

ShardConfig config(int32_t rank) {
    ShardConfig out;
    out.rank = rank;
    out.batch.segments = 4;
    out.batch.bytes = 256;
    out.max_unclaimed = 16;
    out.unclaimed_ns = 15 * kSecond;
    out.max_early_ends = 8;
    return out;
}

std::vector<uint8_t> memory_of(const Side &side) {
    const MemoryRegion &first = side.layout.regions.front(), &last = side.layout.regions.back();
    return {first.base, last.base + last.length};
}

} // namespace

Peers::Peers() : prefill_("prefill", 1, 0, config(4), kSlots) {
    prefill_.fill(1);
    before_ = memory_of(prefill_);
    for (size_t i = 0; i < kPeers; ++i) {
        peers_[i].side = std::make_unique<Side>("decode" + std::to_string(i), 2 + i, 16,
                                                config(static_cast<int32_t>(70 + i)), kSlots);
        connect(i);
    }
}

Peers::~Peers() {
    end_all(prefill_);
    for (size_t i = 0; i < kPeers; ++i) {
        end_all(*peers_[i].side);
        lose(i);
    }
    do
        advance();
    while (prefill_.shard.counters().open_operations.load() != 0);
    pass(60 * kSecond);
    drop();
    prefill_.expect_nothing_left();
    holds(memory_of(prefill_) == before_, "a sender's memory is only read");
    for (Peer &peer : peers_) {
        peer.side->expect_nothing_left();
        check_memory(peer);
    }
}

// -------------------------------------------------------------------------------------------------- what is written

void Peers::offer(size_t peer, OfferCame &&offer) {
    for (const PageRuns &runs : offer.lists)
        for (const PageRuns::Run &run : runs.runs())
            for (uint64_t page = run.first; page < uint64_t{run.first} + run.count && page < 32; ++page)
                peers_[peer].offered[{offer.room_id, runs.group()}].insert(static_cast<uint32_t>(page));
    prefill_.tell(std::move(offer));
}

void Peers::send(RoomHandle room, uint64_t id, std::vector<PageList> lists, const ChunkShape &shape) {
    for (const PageList &list : lists)
        sent_[{id, list.group}].insert(list.pages.begin(), list.pages.end());
    prefill_.send(room, std::move(lists), shape);
}

// Untouched, reused by its owner, or what some room has sent that was offered that page.
bool Peers::written_well(Peer &peer, const Tensor &tensor, uint32_t page) {
    const std::vector<uint8_t> bytes = peer.side->bytes(tensor, page);
    if (bytes == std::vector<uint8_t>(bytes.size(), kUntouched) || bytes == std::vector<uint8_t>(bytes.size(), kReused))
        return true;
    for (const auto &[named, pages] : peer.offered) {
        if (named.second != tensor.name.group || !pages.contains(page))
            continue;
        for (const uint32_t from : sent_[named])
            for (const Tensor &source : prefill_.layout.tensors)
                if (source.name == tensor.name && prefill_.bytes(source, from) == bytes)
                    return true;
    }
    return false;
}

void Peers::check_memory(Peer &peer) {
    Side &side = *peer.side;
    for (const Tensor &tensor : side.layout.tensors)
        for (uint32_t page = 0; page < tensor.page_count; ++page) {
            holds(written_well(peer, tensor, page), "pages get what a room sent that was offered them");
            std::memset(side.page(tensor, page), kUntouched, tensor.page_bytes);
        }
    const std::vector<uint8_t> rest = memory_of(side);
    holds(rest == std::vector<uint8_t>(rest.size(), kUntouched), "nothing is written outside of pages");
}

// ------------------------------------------------------------------------------------------------------- connections

void Peers::connect(size_t index) {
    peers_[index].joint = join(prefill_, *peers_[index].side, kTransport, next_link_);
    next_link_ += 2;
}

void Peers::lose(size_t index) {
    Peer &peer = peers_[index];
    const Cause cause{KVF_ERR_PEER_LOST, -1, "the connection is gone"};
    const auto lose = [&](Side &side, const LinkRef &link) {
        link->lose();
        side.tell(LinkLost{link, cause});
        holds(link->transport->fence(link->peer), "the transport has a fence");
        side.tell(LinkFenced{link->id});
    };
    lose(prefill_, peer.joint.at_prefill);
    lose(*peer.side, peer.joint.at_decode);
    peer.joint = {};
}

size_t Peers::peer_of(uint64_t link) const {
    size_t index = 0;
    while (index < kPeers && (!peers_[index].joint.at_prefill || peers_[index].joint.at_prefill->id != link))
        ++index;
    return index;
}

void Peers::carry_from_prefill(ToControl &&message) {
    if (auto *news = std::get_if<SendNews>(&message)) {
        const size_t to = news->link ? peer_of(news->link->id) : kPeers;
        if (to != kPeers)
            peers_[to].side->tell(
                NewsCame{peers_[to].joint.at_decode->id, news->room_id, news->receiver, std::move(news->news)});
    } else if (auto *drained = std::get_if<SendDrained>(&message)) {
        const size_t to = peer_of(drained->connection);
        if (to != kPeers)
            peers_[to].side->tell(DrainedCame{prefill_.instance, drained->room_id, drained->receiver});
    }
}

void Peers::carry_from(size_t index, ToControl &&message) {
    Peer &from = peers_[index];
    const Joint &joint = from.joint;
    const auto abort = [&](uint64_t room_id, RoomHandle room, bool offered, Cause &&cause) {
        prefill_.tell(AbortCame{joint.at_prefill->id, from.side->instance, room_id, room.value, offered, cause});
    };
    if (auto *seek = std::get_if<SeekPeer>(&message))
        from.side->tell(PeerFound{seek->room, joint.at_decode, false, seek->room_id});
    else if (auto *sent = std::get_if<SendOffer>(&message); sent != nullptr && sent->link == joint.at_decode)
        offer(index, OfferCame{joint.at_prefill, joint.routes, sent->room_id, sent->room.value, sent->prefix_tokens,
                               std::move(sent->lists)});
    else if (auto *given_up = std::get_if<SendAbort>(&message);
             given_up != nullptr && given_up->link == joint.at_decode)
        abort(given_up->room_id, given_up->room, given_up->offered, std::move(given_up->cause));
    else if (auto *settle = std::get_if<SettleRoom>(&message))
        abort(settle->room_id, settle->room, true, std::move(settle->cause));
    else if (auto *forget = std::get_if<ForgetPeer>(&message); forget != nullptr && forget->told)
        abort(forget->room_id, forget->room, false, std::move(forget->cause));
}

void Peers::carry() {
    for (ToControl &message : std::exchange(prefill_.said, {}))
        carry_from_prefill(std::move(message));
    for (size_t i = 0; i < kPeers; ++i)
        for (ToControl &message : std::exchange(peers_[i].side->said, {}))
            carry_from(i, std::move(message));
}

void Peers::drop() {
    prefill_.said.clear();
    for (Peer &peer : peers_)
        peer.side->said.clear();
}

// --------------------------------------------------------------------------------------------------------------- time

void Peers::advance() {
    prefill_.advance();
    for (Peer &peer : peers_)
        peer.side->advance();
}

void Peers::pass(uint64_t ns) {
    prefill_.now += ns;
    for (Peer &peer : peers_)
        peer.side->now += ns;
    advance();
}

void Peers::end_all(Side &side) {
    side.tell(
        EndAllRooms{{KVF_ERR_CLOSED, 4, "the engine is closed"}, std::make_shared<Tally>(1, [](const Status &) {})});
}

} // namespace kvf::fuzz
