// The prefill side of a room: matches its receivers' offers with the caller's chunks, in order, and tells each receiver
// once how it ended. The shard posts what next_copies() gives and brings back what became of it.
#pragma once

#include "room/planner.h"
#include "room/room.h"

#include <deque>
#include <optional>

namespace kvf {

// What a receiver is told: what our caller did is, over there, what the peer did.
Cause as_told(Cause cause);

class SenderRoom : public Room {
  public:
    SenderRoom(const OpenSender &open, const RoomContext &context);

    // Whether that receiver's offer was taken.
    bool knows(uint64_t instance, uint64_t token) const;
    // Receivers that have neither offered nor been answered otherwise. At the end of a room without any, whatever
    // others say of its id is for the next room.
    uint32_t unanswered() const { return receivers_missing() - turned_away_; }
    bool finished() const { return ended() && unanswered() == 0; }

    // The offer of a receiver that is not known yet.
    void offer(OfferCame &&offer, const RoomContext &context);
    void chunk(std::unique_ptr<Chunk> chunk, const RoomContext &context);
    void fence_fired(const RoomContext &context);

    // A receiver gave up; also one that has not offered. False when nothing of it can be in flight and the shard is to
    // answer.
    bool receiver_aborted(AbortCame &&abort, const RoomContext &context);
    // One that offered before the room was opened was lost with its connection. The same engine, or one begun anew, may
    // offer again, be it for this room or, with an id that is in use again, for the first time; but not for ever.
    void receiver_lost(Cause cause, const RoomContext &context);
    // A room that is at its end only brings its receivers up to date.
    void give_up(Cause cause, const RoomContext &context);
    void deadline_passed(const RoomContext &context);
    void lost(const LinkRef &link, const Cause &cause, const RoomContext &context);
    // Something failed because a link is lost, and lost() is still to come with the reason: until then the room rests.
    void cut_off() { cut_off_ = true; }

    // Copies that may be posted now, or null. They stay where they are until posted() or the next call.
    struct Copies {
        uint32_t receiver = 0;
        LinkRef link;
        CopyPlan *plan = nullptr;
    };
    std::optional<Copies> next_copies(const RoomContext &context);
    void posted(uint32_t receiver, const RoomContext &context);
    // An operation's end. message is why it failed; null: its status says it.
    void landed(uint32_t receiver, int status, const char *message, uint64_t bytes, uint32_t segments,
                const RoomContext &context);
    // Tells the receivers that the transfer has begun, where it is not over yet.
    void tell_begun(const RoomContext &context);

    bool begun() const { return report_.posted_ns != 0; }
    bool uses(const Transport *transport) const;
    uint32_t receivers_missing() const { return expected_ - static_cast<uint32_t>(receivers_.size()); }

    // The shard's notes on the room.
    bool queued = false;       // to be looked at for something to post
    bool draining = false;     // ended with operations in flight, which are asked to end
    uint32_t window_ops = 0;   // in flight
    uint64_t window_bytes = 0; // of these

  private:
    struct Receiver {
        LinkRef link; // null once lost
        RoutesRef routes;
        uint64_t instance = 0;
        uint64_t token = 0; // the receiver's handle
        std::vector<PageList> lists;
        CopyPlan plan;                    // of the chunk at the front
        uint32_t in_flight = 0;           // operations
        uint64_t bytes = 0, segments = 0; // landed
        bool told = false;                // how the room ended, or it told us
        uint64_t owed_drained = 0;        // the connection to say DRAINED on when nothing is in flight to it
        std::string name;
    };

    // How many pages of a group are behind us, in each layer.
    struct Progress {
        uint32_t group = 0;
        std::vector<std::pair<uint32_t, uint32_t>> layers; // (layer, pages), sorted
    };

    Status check_offer(const Receiver &receiver, const std::vector<PageRuns> &lists) const;
    void turn_away();
    void reject(const OfferCame &offer, Cause cause, const RoomContext &context) const;
    // True when the chunk at the front is planned; false when it waits for its fence, or the room failed over it.
    bool prepare_front(const RoomContext &context);
    Status plan_front();
    Status plan_list(const Chunk &chunk, const PageList &list);
    Status check_complete() const;
    void stop_fence(const RoomContext &context);
    void conclude_if_done(const RoomContext &context);
    void fail_room(Cause cause, const RoomContext &context);
    void settle(Receiver &receiver, const RoomContext &context);

    const uint32_t expected_;   // receivers
    std::optional<Cause> lost_; // why it hurries
    uint32_t turned_away_ = 0;  // of those that have not offered: came too late, or gave up
    std::vector<Receiver> receivers_;
    std::vector<Progress> progress_; // by group as the first offer names them
    std::deque<std::unique_ptr<Chunk>> chunks_;
    bool front_planned_ = false;
    bool awaiting_fence_ = false;
    bool last_planned_ = false; // the last chunk is planned: what is in the plans is all
    bool begun_told_ = false;
    bool cut_off_ = false;
    uint32_t in_flight_ = 0; // operations, over all receivers
};

} // namespace kvf
