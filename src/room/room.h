// What senders and receivers of a room have in common: its state, its deadline, its one end. Rooms are plain code: they
// are told things, with a time, and answer by what they put into the context.
#pragma once

#include "base/clock.h"
#include "room/messages.h"
#include "room/room_table.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvf {

// Watch a chunk's fence and tell the room once it has fired; or, with `done`, stop watching that one and close it.
struct FenceWatch {
    RoomHandle room;
    int fd = -1;
    OwnedFd done;
};

// What a shard asks of the thread around it.
struct ShardOutput {
    std::vector<ToControl> control;
    std::vector<uint32_t> changed; // slots whose word was written: waiters to wake, events to tell
    std::vector<FenceWatch> fences;
};

// Handed down with every call into a room.
struct RoomContext {
    RoomTable &table;
    ShardOutput &out;
    uint64_t now = 0;
    int32_t rank = -1; // this engine's, the origin of what fails here
};

class Room {
  public:
    Room(RoomHandle handle, uint64_t id, const RoomDeadlines &deadlines, const RoomContext &context);
    Room(const Room &) = delete;
    Room &operator=(const Room &) = delete;

    RoomHandle handle() const { return handle_; }
    uint64_t id() const { return id_; }
    bool ended() const { return state_ == KVF_STATE_FAILED || state_ == KVF_STATE_SUCCESS; }
    bool quiesced() const { return quiesced_; }
    const Cause &cause() const { return cause_; }

    // When the present phase must be over; kNever at the room's end.
    uint64_t deadline() const { return deadline_; }

    // The shard's notes on the room.
    bool closing = false;             // its handle was given up: to be freed once it is quiesced
    bool counted = false;             // its end is in the counters
    uint64_t filed_deadline = kNever; // as it stands in the shard's list

  protected:
    ~Room() = default;

    void enter(uint8_t state, uint64_t deadline, const RoomContext &context);
    // The one way to an end. A room that has one keeps it: returns false. Success is quiesced by its nature.
    bool end(Cause cause, bool quiesced, const RoomContext &context);
    void quiesce(const RoomContext &context);
    // The present phase ends sooner.
    void hurry(uint64_t deadline) { deadline_ = std::min(deadline_, deadline); }
    // Lets callers see the report as it is now; with every change of the word they do anyway.
    void file(const RoomContext &context) const { context.table.file(handle_, report_); }
    // The report's message, as far as it goes; filed with the next change.
    void say(std::string_view sentence);

    uint8_t state() const { return state_; }
    std::string called() const; // "room 7", for sentences

    const RoomDeadlines deadlines_;
    kvf_report report_{};

  private:
    // Before a change: what can fail for want of memory does so while the room is as it was.
    void announce(const RoomContext &context) const;
    void publish(const RoomContext &context);

    const RoomHandle handle_;
    const uint64_t id_;
    uint8_t state_ = KVF_STATE_BOOTSTRAPPING;
    bool quiesced_ = false;
    uint64_t deadline_;
    Cause cause_;
};

// The sum, which stays at the end of time.
uint64_t later(uint64_t now, uint64_t length);

} // namespace kvf
