// The operations that a shard has in flight, by the token that the transport gives back. A token carries its entry's
// generation, so that a completion told twice, or of nobody, finds nothing.
#pragma once

#include "base/seeded_fault.h"
#include "room/link.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace kvf {

struct Operation {
    uint64_t room = 0;     // handle
    uint32_t receiver = 0; // index in its room
    uint32_t segments = 0;
    uint64_t bytes = 0;
    LinkRef link; // keeps the peer while its memory may be touched
};

class Operations {
  public:
    // The token that the next add() will use.
    uint64_t next_token() {
        if (free_.empty()) {
            entries_.emplace_back();
            free_.reserve(entries_.capacity()); // an operation's end needs no memory
            free_.push_back(static_cast<uint32_t>(entries_.size() - 1));
        }
        return token_of(free_.back());
    }

    void add(Operation &&operation) {
        window_bytes_ += operation.bytes;
        ++window_ops_;
        Entry &entry = entries_[free_.back()];
        free_.pop_back();
        entry.live = entry.windowed = true;
        entry.operation = std::move(operation);
        ++count_;
    }

    std::optional<Operation> take(uint64_t token) {
        const auto index = static_cast<uint32_t>(token);
        if (index >= entries_.size() || !entries_[index].live || token_of(index) != token)
            return {};
        Entry &entry = entries_[index];
        entry.live = false;
        ++entry.generation;
        free_.push_back(index);
        leave_window(&entry);
        --count_;
        return std::move(entry.operation);
    }

    // Takes the room's operations out of the window and visits their tokens and what they are.
    template <typename Visit>
    void drain(uint64_t room, Visit visit) {
        for (uint32_t index = 0; index < entries_.size(); ++index) {
            Entry &entry = entries_[index];
            if (!entry.live || entry.operation.room != room)
                continue;
            leave_window(&entry);
            visit(token_of(index), entry.operation);
        }
    }

    uint32_t count() const { return count_; }
    // Without those of rooms at their end, which take as long as they like to drain.
    uint32_t window_ops() const { return window_ops_; }
    uint64_t window_bytes() const { return window_bytes_; }

  private:
    struct Entry {
        Operation operation;
        uint32_t generation = 1;
        bool live = false;
        bool windowed = false; // counts in the window
    };
    void leave_window(Entry *entry) {
        if (!std::exchange(entry->windowed, false))
            return;
        if (seeded(SeededFault::credits_are_lost) && entry->operation.segments == 1)
            return;
        window_bytes_ -= entry->operation.bytes;
        --window_ops_;
    }
    uint64_t token_of(uint32_t index) const { return uint64_t{entries_[index].generation} << 32 | index; }

    std::vector<Entry> entries_;
    std::vector<uint32_t> free_;
    uint32_t count_ = 0;
    uint32_t window_ops_ = 0;
    uint64_t window_bytes_ = 0;
};

} // namespace kvf
