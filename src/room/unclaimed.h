// What receivers said of rooms that the prefill side has not opened (yet): offers, and that they gave up. Kept in the
// order it came, up to a number, a size in bytes and an age; where it is too much, the instance that holds most gives
// way. Also how sender rooms ended that receivers may still ask for.
#pragma once

#include "room/messages.h"

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvf {

class Unclaimed {
  public:
    struct Entry {
        uint64_t room_id = 0;
        uint64_t instance = 0; // of the receiver's engine
        uint64_t receiver = 0;
        uint64_t came_ns = 0;
        uint64_t number = 0;            // in the order they came: many have one time
        std::optional<OfferCame> offer; // without it: the receiver gave up, for this cause
        Cause cause;
        bool lost = false; // it gave up with its connection, not by its own word
    };

    // Keeps at most that many entries and bytes.
    Unclaimed(size_t most, size_t most_bytes) : most_bytes_(most_bytes), least_cost_(most_bytes / most) {}

    // Adds an offer. Where it is too much, the oldest entries of those instances that hold most make room, and are
    // returned; it may be among them.
    std::vector<Entry> add(OfferCame &&offer, uint64_t now);
    std::vector<Entry> add_abort(const AbortCame &abort, uint64_t now);
    // A receiver gives its offer up. False when there is none.
    bool retract(const AbortCame &abort);
    // The entries of a room, which are no longer kept: oldest first, and those of lost connections behind all others. A
    // receiver that offers again takes the place of one that was lost, be it the same engine or one begun anew.
    std::vector<Entry> claim(uint64_t room_id);
    // Whoever offered over that link has given up, for this cause.
    void lost(const LinkRef &link, const Cause &cause);
    // The oldest entry when it came before `limit`.
    std::optional<Entry> expired(uint64_t limit);

    size_t size() const { return entries_.size(); }
    size_t offers() const { return offers_; } // those that were not given up
    uint64_t oldest_ns() const { return entries_.empty() ? UINT64_MAX : entries_.front().came_ns; }

  private:
    using Entries = std::list<Entry>;
    struct Holder {
        size_t cost = 0;
        std::map<uint64_t, Entries::iterator> entries; // by number
    };

    size_t cost_of(const Entry &entry) const;
    void charge(Entries::iterator entry, size_t before, size_t after);
    std::vector<Entry> keep(Entry &&entry);
    Entry take(Entries::iterator entry);
    void give_up(Entries::iterator entry, const Cause &cause);
    Entries::iterator find(const AbortCame &abort);

    const size_t most_bytes_;
    const size_t least_cost_; // of an entry in bytes, so that the bound in bytes is one in number too
    size_t cost_ = 0;
    size_t offers_ = 0;
    uint64_t next_number_ = 0;
    Entries entries_;                               // oldest first
    std::unordered_map<uint64_t, Holder> holders_;  // by instance
    std::set<std::pair<size_t, uint64_t>> by_cost_; // (cost, instance) of holders
    // By room, then by (instance, receiver).
    std::unordered_map<uint64_t, std::multimap<std::pair<uint64_t, uint64_t>, Entries::iterator>> by_room_;
};

// How sender rooms ended that failed before all of their receivers had offered, so that those are answered at once when
// they come. The latest few, by room id; each answers as many as were missing, for what comes then is for the next
// room.
class EarlyEnds {
  public:
    explicit EarlyEnds(size_t most) : most_(most) {}

    void add(uint64_t room_id, Cause cause, uint32_t missing, uint64_t now);
    // The answer for one receiver of that room. Ends from before `limit` are forgotten.
    std::optional<Cause> answer(uint64_t room_id, uint64_t limit);
    void forget(uint64_t room_id);

  private:
    struct End {
        uint64_t room_id = 0;
        Cause cause;
        uint32_t missing = 0;
        uint64_t came_ns = 0;
    };
    using Ends = std::list<End>;

    const size_t most_;
    Ends ends_; // oldest first
    std::unordered_map<uint64_t, Ends::iterator> by_room_;
};

} // namespace kvf
