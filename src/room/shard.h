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
#include <new>
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
    size_t max_unclaimed_bytes = size_t{64} << 20;
    uint64_t unclaimed_ns = 0; // how long an offer waits for its room
    size_t max_early_ends = 4096;
};

// Read by any thread.
struct ShardCounters {
    std::atomic<uint64_t> rooms_opened{0}, rooms_succeeded{0}, rooms_failed{0};
    std::atomic<uint64_t> late_messages{0};     // for rooms or generations that are gone; dropped
    std::atomic<uint64_t> unclaimed_dropped{0}; // offers that nobody claimed
    std::atomic<uint64_t> stray_completions{0}; // of no operation in flight; a transport's fault
    std::atomic<uint64_t> lane_failures{0};     // polls that failed; likewise
    std::atomic<uint64_t> operations{0}, segments{0}, bytes{0};
    std::atomic<uint64_t> open_unclaimed{0}, open_operations{0}, open_rooms{0};
};

class Shard {
  public:
    Shard(const ShardConfig &config, RoomTable &table);

    // None of these throws: what goes wrong, for want of memory most likely, fails the room that it is about, and is
    // logged.
    void handle(ToShard &&message, uint64_t now) noexcept;
    void fence_fired(RoomHandle room, uint64_t now) noexcept;
    // The fence can't fire any more, or was never watched.
    void fence_failed(RoomHandle room, const Status &why, uint64_t now) noexcept;

    // Reaps, posts, and ends what is overdue, for about as long as a few batches take. True when there is more to do
    // right away; otherwise nothing happens before a message, a lane's event or next_deadline().
    bool advance(uint64_t now) noexcept;

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
        bool failed = false;                         // a poll has failed, and was logged
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

    // Runs what is about a room, or about none in particular; false when it threw.
    template <typename Act>
    bool contained(RoomHandle room, Act act) noexcept;
    void contain(RoomHandle room, int code, const char *what) noexcept;
    void give_up(RoomHandle room, const Cause &cause);
    RoomHandle concerned(const ToShard &message) const;

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
    bool turn();
    void reap_all();
    void reap(LaneSlot &slot);
    void lane_failed(LaneSlot &slot, int code);
    bool landed(const kvf_completion &completion);
    bool post();
    // What became of a try to post for a room.
    enum class Posted { kSome, kNothingToDo, kStuck, kShareFull, kWindowFull };
    bool window_full() const;
    bool share_full(const SenderRoom &room) const;
    Posted post_batch(SenderRoom &room);
    LaneSlot *lane_of(const Transport *transport);
    void drain_ended();
    void close_idle_lanes();

    const ShardConfig config_;
    RoomTable &table_;
    ShardOutput output_;
    ShardCounters counters_;
    uint64_t now_ = 0;
    uint64_t contained_ns_ = 0;    // when a failure was last logged
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
    Operations operations_;
    std::vector<LaneSlot> lanes_; // behind the operations, so that the lanes close before these let go of their peers
    std::vector<kvf_segment> segments_; // of the batch being posted
};

template <typename Act>
bool Shard::contained(RoomHandle room, Act act) noexcept {
    try {
        act();
        return true;
    } catch (const std::bad_alloc &) {
        contain(room, KVF_ERR_NO_MEMORY, "out of memory");
    } catch (const std::exception &error) {
        contain(room, KVF_ERR_INTERNAL, error.what());
    }
    return false;
}

// Rooms may be freed while they are visited.
template <typename Visit>
void Shard::each_sender(Visit visit) {
    for (auto it = senders_.begin(); it != senders_.end();) {
        SenderRoom &room = *(it++)->second;
        contained(room.handle(), [&] {
            visit(room);
            settle(room);
        });
    }
}

template <typename Visit>
void Shard::each_receiver(Visit visit) {
    for (auto it = receivers_.begin(); it != receivers_.end();) {
        ReceiverRoom &room = *(it++)->second;
        contained(room.handle(), [&] {
            visit(room);
            settle(room);
        });
    }
}

} // namespace kvf
