// A shard: owns the rooms whose ids are dealt to it, posts their copies on its lanes within a window, and ends them. No
// thread, no clock, no socket: it is told things, with a time, and what it wants done stands in its output.
#pragma once

#include "plugin/lane.h"
#include "room/operations.h"
#include "room/receiver_room.h"
#include "room/sender_room.h"
#include "room/unclaimed.h"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

namespace kvf {

struct ShardConfig {
    uint32_t index = 0;
    int32_t rank = -1;
    uint32_t window_ops = 64;
    uint64_t window_bytes = 64 << 20;
    BatchLimits batch; // strided is decided by each transport
    size_t max_unclaimed = 65536;
    uint64_t unclaimed_ns = 0; // how long an offer waits for its room
    size_t max_early_ends = 4096;
};

// Read by any thread.
struct ShardCounters {
    std::atomic<uint64_t> rooms_opened{0}, rooms_succeeded{0}, rooms_failed{0};
    std::atomic<uint64_t> late_messages{0};     // for rooms or generations that are gone; dropped
    std::atomic<uint64_t> unclaimed_dropped{0}; // offers that nobody claimed
    std::atomic<uint64_t> stray_completions{0}; // of no operation in flight; a transport's fault
    std::atomic<uint64_t> operations{0}, segments{0}, bytes{0};
    std::atomic<uint64_t> open_unclaimed{0}, open_operations{0}, open_rooms{0};
};

class Shard {
  public:
    Shard(const ShardConfig &config, RoomTable &table);

    void handle(ToShard &&message, uint64_t now);
    void fence_fired(RoomHandle room, uint64_t now);

    // Reaps, posts, and ends what is overdue, for about as long as a few batches take. True when there is more to do
    // right away; otherwise nothing happens before a message, a lane's event or next_deadline().
    bool advance(uint64_t now);

    uint64_t next_deadline() const;
    // Operations are in flight on lanes that have no descriptor to sleep on: call advance() again soon.
    bool must_poll() const;
    // Descriptors of lanes that have operations in flight, armed; false when one says to poll first.
    bool arm_lanes(std::vector<int> *descriptors);

    ShardOutput &output() { return output_; }
    const ShardCounters &counters() const { return counters_; }
    // The tally of EndAllRooms, once, when no room is left and nothing is in flight.
    std::shared_ptr<Tally> take_ended();

  private:
    struct LaneSlot {
        std::shared_ptr<Transport> transport;
        std::unique_ptr<Lane> lane;
        uint32_t in_flight = 0;
        std::vector<std::shared_ptr<Tally>> closing; // to be told when the lane is closed; empty while it stays
    };

    void on(OpenSender &&message);
    void on(OpenReceiver &&message);
    void on(Accept &&message);
    void on(SendChunk &&message);
    void on(AbortRoom &&message);
    void on(CloseRoom &&message);
    void on(CloseRoomDeferred &&message);
    void on(PeerFound &&message);
    void on(PeerDelayed &&message);
    void on(PeerRefused &&message);
    void on(LinkRetired &&message);
    void on(OfferCame &&message);
    void on(NewsCame &&message);
    void on(DrainedCame &&message);
    void on(AbortCame &&message);
    void on(LinkLost &&message);
    void on(LinkFenced &&message);
    void on(TransportUp &&message);
    void on(TransportDown &&message);
    void on(EndAllRooms &&message);

    RoomContext context() { return {table_, output_, now_, config_.rank}; }
    SenderRoom *sender(RoomHandle room);
    ReceiverRoom *receiver(RoomHandle room);
    void late() { counters_.late_messages.fetch_add(1, std::memory_order_relaxed); }

    // After every call into a room: its deadline is filed, it is queued to post, freed when it gave up its handle.
    void settle(SenderRoom &room);
    void settle(ReceiverRoom &room);
    void settle_end(SenderRoom &room);
    void settle_end(Room &room);
    void schedule(Room &room);
    void erase(RoomHandle room);
    void forget_link(uint64_t link);
    template <typename Visit>
    void each_sender(Visit visit);
    template <typename Visit>
    void each_receiver(Visit visit);

    // Offers and ends from before that are too old.
    uint64_t unclaimed_limit() const { return now_ < config_.unclaimed_ns ? 0 : now_ - config_.unclaimed_ns; }
    void expire();
    void trip(RoomHandle room);
    void refuse(const OfferCame &offer, Cause cause);
    void drop_unclaimed(Unclaimed::Entry &&entry);
    void reap(LaneSlot &slot);
    bool landed(const kvf_completion &completion);
    bool post();
    // What became of a try to post for a room.
    enum class Posted { kSome, kNothingToDo, kStuck, kWindowFull };
    Posted post_batch(SenderRoom &room);
    LaneSlot *lane_of(const Transport *transport);
    void drain_ended();
    void close_idle_lanes();

    const ShardConfig config_;
    RoomTable &table_;
    ShardOutput output_;
    ShardCounters counters_;
    uint64_t now_ = 0;
    std::optional<Cause> closing_; // set by EndAllRooms, as is the next
    std::shared_ptr<Tally> ended_;

    std::unordered_map<uint64_t, std::unique_ptr<SenderRoom>> senders_; // by handle
    std::unordered_map<uint64_t, SenderRoom *> senders_by_id_;
    std::unordered_map<uint64_t, std::unique_ptr<ReceiverRoom>> receivers_; // by handle
    std::map<Target, LinkRef> known_;                                       // ready peers, by where they were sought
    std::set<std::pair<uint64_t, uint64_t>> deadlines_;                     // (time, handle)
    Unclaimed unclaimed_;
    EarlyEnds early_ends_;

    std::deque<uint64_t> ready_;            // handles of senders that may have something to post
    std::vector<uint64_t> stuck_;           // of these, whose transport was full
    std::vector<uint64_t> begun_;           // that posted their first in this turn
    std::vector<uint64_t> ended_in_flight_; // that ended with operations in flight, which are to be cancelled
    std::vector<LaneSlot> lanes_;
    Operations operations_;
    std::vector<kvf_segment> segments_; // of the batch being posted
};

} // namespace kvf
