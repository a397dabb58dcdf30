// The table of rooms: a fixed number of slots, each one cache line, that any thread may look at and only the shard that
// owns the room writes. Handles carry the slot's generation, so that a stale one is told from its successor.
#pragma once

#include "base/seeded_fault.h"
#include "base/status.h"
#include "room/ids.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace kvf {

// A room's atomic word: state in bits 0-7, flags 8-15, the code's negative 16-31, the generation 32-63.
struct RoomWord {
    uint64_t value = 0;

    static constexpr uint8_t kFree = 0xff; // the state of a slot without a room

    static RoomWord make(uint32_t generation, uint8_t state, uint8_t flags, int code) {
        return {uint64_t{generation} << 32 | uint64_t{static_cast<uint16_t>(-code)} << 16 | uint64_t{flags} << 8 |
                state};
    }
    uint8_t state() const { return static_cast<uint8_t>(value); }
    uint8_t flags() const { return static_cast<uint8_t>(value >> 8); }
    int code() const { return -static_cast<int>((value >> 16) & 0xffff); }
    uint32_t generation() const { return static_cast<uint32_t>(value >> 32); }
    bool ended() const { return state() == KVF_STATE_FAILED || state() == KVF_STATE_SUCCESS; }
    bool quiesced() const { return (flags() & KVF_ROOM_QUIESCED) != 0; }
};

enum class RoomRole : uint8_t { kSender, kReceiver };

class RoomTable {
  public:
    // tag: of the engine, so that a handle of another engine is told from a stale one. shards: how room ids are dealt.
    // first_generation: of every slot; random, so that handles of a table that had the same tag are stale here.
    RoomTable(uint32_t capacity, uint8_t tag, uint32_t shards, uint32_t first_generation = 1);

    uint32_t capacity() const { return capacity_; }
    uint32_t shard(uint64_t room_id) const { return shard_of(room_id, shards_); }

    // ------------------------------------------------------------------------------------------ any thread

    // Takes a slot for a new room, which is Bootstrapping. KVF_ERR_EXISTS: (role, room_id, place) lives. KVF_ERR_FULL:
    // all slots have rooms; KVF_ERR_AGAIN: some had, which are not released yet. place says where a receiver's peer
    // is, empty for senders.
    Status open(RoomRole role, uint64_t room_id, const std::string &place, RoomHandle *room);

    // The room's word. KVF_ERR_STALE, KVF_ERR_FOREIGN: no sentence is made, see refuse(). The hot path of poll.
    int load(RoomHandle room, RoomWord *word) const {
        const uint32_t slot = room.slot();
        if (room.tag() != tag_ || slot >= capacity_) [[unlikely]]
            return KVF_ERR_FOREIGN;
        word->value = slots_[slot].word.load(std::memory_order_acquire);
        if ((word->generation() != room.generation() && !seeded(SeededFault::stale_handle_is_taken)) ||
            word->state() == RoomWord::kFree) [[unlikely]]
            return KVF_ERR_STALE;
        return KVF_OK;
    }

    // The sentence for a handle that load() refused.
    Status refuse(RoomHandle room, int code) const;

    // Of a room that load() just found.
    RoomRole role(RoomHandle room) const { return slots_[room.slot()].role.load(std::memory_order_relaxed); }
    uint64_t room_id(RoomHandle room) const { return slots_[room.slot()].room_id.load(std::memory_order_relaxed); }

    // Calls that a room takes once: true for the first caller. A stale handle claims nothing.
    enum Once : uint8_t { kAccepted = 1, kLastSent = 2, kDeferred = 4 };
    bool claim(RoomHandle room, Once what);
    bool claimed(RoomHandle room, Once what) const;

    // Makes the handle of an ended, quiesced room stale and frees its id. KVF_ERR_BUSY when it is not there yet. The
    // slot itself is free after release().
    int retire(RoomHandle room);

    // Waits until the word differs from `seen`, the time has passed, or for no reason after a while.
    void wait(RoomHandle room, RoomWord seen, uint64_t timeout_ns);

    // A room by its slot, for events: false when the slot is free.
    bool at(uint32_t slot, RoomHandle *room, RoomWord *word, uint64_t *room_id) const;

    // What is known of a room, kept apart from the hot line. KVF_ERR_STALE.
    int report(RoomHandle room, kvf_report *out) const;

    // Rooms that something may still write to or read from. Looks at all of them.
    uint32_t unquiesced() const;
    uint32_t open_rooms() const { return open_rooms_.load(std::memory_order_relaxed); }

    // --------------------------------------------------------------- the shard that owns the room, and no other

    void publish(RoomHandle room, uint8_t state, uint8_t flags, int code);
    // Wakes wait()ers; cheap when there are none.
    void wake(uint32_t slot);
    void file(RoomHandle room, const kvf_report &report);
    void release(RoomHandle room);

  private:
    struct alignas(64) Slot {
        std::atomic<uint64_t> word;
        std::atomic<uint32_t> waiters{0};
        std::atomic<uint64_t> claims{0}; // generation in the high half, bits of Once in the low
        std::atomic<RoomRole> role{RoomRole::kSender};
        std::atomic<uint64_t> room_id{0};
    };
    static_assert(sizeof(Slot) == 64);

    struct LiveKey {
        uint64_t room_id;
        RoomRole role;
        std::string place;
        bool operator==(const LiveKey &) const = default;
    };
    struct LiveKeyHash {
        size_t operator()(const LiveKey &key) const {
            return mix(key.room_id ^ std::hash<std::string>()(key.place) ^ static_cast<uint64_t>(key.role));
        }
    };
    static constexpr size_t kStripes = 64;

    std::mutex &stripe(uint32_t slot) const { return stripes_[slot % kStripes]; }

    const uint32_t capacity_;
    const uint8_t tag_;
    const uint32_t shards_;
    std::unique_ptr<Slot[]> slots_;

    // Reports are not hot. Each is under its slot's stripe, a lock that is held for the copy of one; null until the
    // slot's first, and kept for its later rooms (struct_size 0: none yet).
    mutable std::array<std::mutex, kStripes> stripes_;
    std::vector<std::unique_ptr<kvf_report>> reports_;

    mutable std::mutex open_mutex_; // of the four below
    uint32_t unused_ = 0;           // slots from here on never had a room
    std::vector<uint32_t> free_;
    std::unordered_map<LiveKey, uint32_t, LiveKeyHash> live_;
    std::vector<const LiveKey *> live_of_; // by slot, into live_; null when none
    std::atomic<uint32_t> open_rooms_{0};
};

} // namespace kvf
