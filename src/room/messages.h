// What threads tell each other. Callers and the control thread send ToShard to the shard that owns a room; shards send
// ToControl. Both are values: whoever takes one out of a mailbox owns it.
#pragma once

#include "room/ids.h"
#include "room/link.h"
#include "room/page_runs.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvf {

// Why a room failed, and where.
struct Cause {
    int code = KVF_OK;
    int32_t rank = -1; // global rank that it came from, -1: not known
    std::string sentence;
};

// ---------------------------------------------------------------------------------------- from callers to shards

struct RoomDeadlines {
    uint64_t bootstrap_ns = 0, waiting_ns = 0, transfer_ns = 0; // lengths, not points in time
};

struct OpenSender {
    RoomHandle room;
    uint64_t room_id = 0;
    uint32_t receivers = 1;
    RoomDeadlines deadlines;
};

// Where a receiver's peer is to be found.
struct Target {
    std::string prefill; // as given to kvf_room_open_receiver
    uint32_t dp_choice = KVF_DP_BY_ROOM;
    uint32_t dp_rank = 0;

    auto operator<=>(const Target &) const = default;
};

struct OpenReceiver {
    RoomHandle room;
    uint64_t room_id = 0;
    Target target;
    uint64_t prefix_tokens = 0;
    RoomDeadlines deadlines;
};

struct Accept {
    RoomHandle room;
    std::vector<PageRuns> lists;
    uint64_t at_ns = 0;
};

// Owns a file descriptor; -1: none.
class OwnedFd {
  public:
    OwnedFd() = default;
    explicit OwnedFd(int fd) : fd_(fd) {}
    OwnedFd(OwnedFd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    OwnedFd &operator=(OwnedFd &&other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~OwnedFd();
    int get() const { return fd_; }

  private:
    int fd_ = -1;
};

struct Chunk {
    std::vector<PageList> lists;
    uint32_t layer_begin = 0, layer_count = 0; // count 0: all
    bool last = false;
    OwnedFd fence;
    uint64_t queued_ns = 0;
};

struct SendChunk {
    RoomHandle room;
    std::unique_ptr<Chunk> chunk;
};

struct AbortRoom {
    RoomHandle room;
    std::string reason;
};

// The handle is stale already; the room was at its end and quiesced.
struct CloseRoom {
    RoomHandle room;
};

struct CloseRoomDeferred {
    RoomHandle room;
};

// --------------------------------------------------------------------------------- from the control thread to shards

// Answer to SeekPeer: the room's peer is ready.
struct PeerFound {
    RoomHandle room;
    LinkRef link;
    bool for_target = false; // and that of every room with the same target, until LinkRetired or LinkLost
    uint64_t room_id = 0;
};

// To every shard: no new rooms on this link.
struct LinkRetired {
    uint64_t link = 0;
};

// Something went wrong on the way to the peer and is being tried again; the sentence for when the deadline passes.
struct PeerDelayed {
    RoomHandle room;
    std::string why;
};

// It will not be found: the engines do not fit, or control is closing.
struct PeerRefused {
    RoomHandle room;
    Cause cause;
};

struct OfferCame {
    LinkRef link;
    RoutesRef routes;
    uint64_t room_id = 0;
    uint64_t receiver = 0; // the receiver's handle; a token here
    uint64_t prefix_tokens = 0;
    std::vector<PageRuns> lists;
};

// From the sender of a room to a receiver.
struct RoomNews {
    enum Kind : uint8_t { kBegan, kSuccess, kFailed };
    Kind kind = kBegan;
    bool drained = false; // with kFailed: nothing of it is in flight to the receiver
    Cause cause;
    uint64_t bytes = 0, segments = 0;
};

struct NewsCame {
    uint64_t link = 0; // Link::id
    uint64_t room_id = 0;
    uint64_t receiver = 0;
    RoomNews news;
};

struct DrainedCame {
    uint64_t instance = 0; // of the sender's engine
    uint64_t room_id = 0;
    uint64_t receiver = 0;
};

// A receiver gave the room up. Answered by Drained, once nothing of it is in flight.
struct AbortCame {
    uint64_t connection = 0; // where the answer goes; 0: nobody waits for one
    uint64_t instance = 0;
    uint64_t room_id = 0;
    uint64_t receiver = 0;
    bool offered = false; // the receiver had sent its pages
    Cause cause;
};

// To every shard: the connection is gone. Operations in flight to the peer still end by their completions.
struct LinkLost {
    LinkRef link;
    Cause cause;
};

// To every shard, after LinkLost: the transport's fence holds; the peer cannot touch our memory any more.
struct LinkFenced {
    uint64_t link = 0;
};

// Counts the answers of all shards to one request and runs `done` with the first failure, on the last shard's thread.
class Tally {
  public:
    Tally(uint32_t expected, std::function<void(Status)> done) : left_(expected), done_(std::move(done)) {}
    void add(Status status);

  private:
    std::mutex mutex_;
    uint32_t left_;
    Status first_;
    std::function<void(Status)> done_;
};

struct TransportUp {
    std::shared_ptr<Transport> transport;
    std::shared_ptr<Tally> tally;
};

// Close the lane once nothing is in flight on it.
struct TransportDown {
    std::shared_ptr<Transport> transport;
    std::shared_ptr<Tally> tally;
};

// Ends and frees every room; those that come later end at once. The tally gets this shard's answer when none is left.
struct EndAllRooms {
    Cause cause;
    std::shared_ptr<Tally> tally;
};

using ToShard = std::variant<OpenSender, OpenReceiver, Accept, SendChunk, AbortRoom, CloseRoom, CloseRoomDeferred,
                             PeerFound, PeerDelayed, PeerRefused, LinkRetired, OfferCame, NewsCame, DrainedCame,
                             AbortCame, LinkLost, LinkFenced, TransportUp, TransportDown, EndAllRooms>;

// ----------------------------------------------------------------------------------- from shards to the control thread

// Find the peer and answer with PeerFound or PeerRefused, in between with PeerDelayed.
struct SeekPeer {
    RoomHandle room;
    uint64_t room_id = 0;
    Target target;
};

// The link of a room at its end was lost: ask the engine behind it, over whatever connection there is or will be,
// whether anything of the room is in flight, until it answers (DrainedCame).
struct SettleRoom {
    LinkRef link;
    uint64_t room_id = 0;
    RoomHandle room;
    Cause cause;
};

// The room does not wait for SeekPeer's or SettleRoom's answer any more. Its peer is told (AbortCame there) as soon as
// it is found, if told says so. A PeerFound that has gone out before is the shard's to answer.
struct ForgetPeer {
    RoomHandle room;
    uint64_t room_id = 0;
    Cause cause;
    bool told = true;
};

struct SendOffer {
    LinkRef link;
    uint64_t room_id = 0;
    RoomHandle room;
    uint64_t prefix_tokens = 0;
    std::vector<PageRuns> lists;
};

struct SendNews {
    LinkRef link;
    uint64_t room_id = 0;
    uint64_t receiver = 0;
    RoomNews news;
};

struct SendDrained {
    uint64_t connection = 0;
    uint64_t room_id = 0;
    uint64_t receiver = 0;
};

struct SendAbort {
    LinkRef link;
    uint64_t room_id = 0;
    RoomHandle room;
    bool offered = false;
    Cause cause;
};

using ToControl = std::variant<SeekPeer, SettleRoom, ForgetPeer, SendOffer, SendNews, SendDrained, SendAbort>;

} // namespace kvf
