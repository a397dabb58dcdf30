// The data path of a shard: its lanes, what is posted on them, what comes back.
#include "base/log.h"
#include "base/seeded_fault.h"
#include "base/status_text.h"
#include "plugin/host.h"
#include "room/shard.h"

#include <algorithm>
#include <utility>

namespace kvf {

// How many batches advance() posts before it looks at messages again: about a millisecond of copying.
constexpr int kBatchesPerTurn = 4;
constexpr uint32_t kCompletionsPerPoll = 64;

// ------------------------------------------------------------------------------------------------------ transports

void Shard::on(TransportUp &&message) {
    LaneSlot slot;
    slot.transport = message.transport;
    Status opened = Lane::open(message.transport, config_.index, &slot.lane);
    if (opened.ok())
        lanes_.push_back(std::move(slot));
    message.tally->add(std::move(opened));
}

void Shard::on(TransportDown &&message) {
    if (LaneSlot *slot = lane_of(message.transport.get()))
        slot->closing.push_back(std::move(message.tally));
    else
        message.tally->add({});
}

Shard::LaneSlot *Shard::lane_of(const Transport *transport) {
    const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                    [&](const LaneSlot &slot) { return slot.transport.get() == transport; });
    return found == lanes_.end() ? nullptr : &*found;
}

void Shard::close_idle_lanes() {
    for (auto slot = lanes_.begin(); slot != lanes_.end();) {
        const bool used = slot->closing.empty() || slot->in_flight != 0 ||
                          std::any_of(senders_.begin(), senders_.end(), [&](const auto &entry) {
                              return !entry.second->ended() && entry.second->uses(slot->transport.get());
                          });
        if (used) {
            ++slot;
            continue;
        }
        const LaneSlot closed = std::move(*slot);
        slot = lanes_.erase(slot);
        for (const auto &tally : closed.closing)
            tally->add({});
    }
}

bool Shard::must_poll() const {
    return !stuck_.empty() || std::any_of(lanes_.begin(), lanes_.end(), [](const LaneSlot &slot) {
        return slot.in_flight != 0 && !slot.lane->can(KVF_CAP_EVENT_FD);
    });
}

bool Shard::arm_lanes(std::vector<int> *descriptors) {
    for (const LaneSlot &slot : lanes_) {
        if (slot.in_flight == 0 || !slot.lane->can(KVF_CAP_EVENT_FD))
            continue;
        if (slot.lane->arm() == KVF_ERR_BUSY)
            return false;
        descriptors->push_back(slot.lane->event_fd());
    }
    return true;
}

// -------------------------------------------------------------------------------------------------------- data path

bool Shard::advance(uint64_t now) noexcept {
    now_ = now;
    bool more = true; // after a failure: the rest of it
    contained({}, [&] { more = turn(); });
    return more;
}

bool Shard::turn() {
    reap_all();
    expire();
    drain_ended();
    for (const uint64_t handle : stuck_)
        ready_.push_back(handle);
    stuck_.clear();
    const bool more = post();
    for (const uint64_t handle : begun_)
        contained({handle}, [&] {
            if (SenderRoom *room = sender({handle}))
                room->tell_begun(context());
        });
    begun_.clear();
    close_idle_lanes();
    counters_.open_unclaimed.store(unclaimed_.offers(), std::memory_order_relaxed);
    counters_.open_operations.store(operations_.count(), std::memory_order_relaxed);
    counters_.open_rooms.store(senders_.size() + receivers_.size(), std::memory_order_relaxed);
    return more || !ended_in_flight_.empty();
}

bool Shard::window_full() const {
    return operations_.window_ops() >= config_.window_ops || operations_.window_bytes() >= config_.window_bytes;
}

// A room may have half of what the others leave of the window, and one batch in any case. So one whose operations do
// not come back, and the next of its kind, leave a place to those that come after them.
bool Shard::share_full(const SenderRoom &room) const {
    if (room.ended() || room.window_ops == 0)
        return false;
    const uint64_t ops = config_.window_ops - (operations_.window_ops() - room.window_ops);
    const uint64_t bytes = config_.window_bytes - (operations_.window_bytes() - room.window_bytes);
    return room.window_ops >= ops / 2 || room.window_bytes >= bytes / 2;
}

// Rooms post in the order they became ready, each as much as it has and as its share of the window holds. One whose
// transport is full stands aside for the others; all stop when the window is full. True when batches are left for
// another turn.
bool Shard::post() {
    begun_.reserve(begun_.size() + kBatchesPerTurn); // nothing may fail once the transport has accepted a batch
    for (int batches = 0; !ready_.empty();) {
        const uint64_t handle = ready_.front();
        SenderRoom *room = sender({handle});
        Posted posted = Posted::kNothingToDo;
        if (room)
            contained({handle}, [&] { posted = post_batch(*room); });
        if (posted == Posted::kWindowFull)
            return false;
        if (posted == Posted::kSome) {
            // For a transport that is done at once this ends the operation, perhaps the room.
            reap_all();
            if (++batches == kBatchesPerTurn)
                return true;
            continue;
        }
        if (posted == Posted::kStuck)
            stuck_.push_back(handle);
        ready_.pop_front();
        if (!room || posted == Posted::kStuck)
            continue;
        room->queued = false;
        settle_end(*room);
    }
    return false;
}

Shard::Posted Shard::post_batch(SenderRoom &room) {
    if (window_full())
        return Posted::kWindowFull;
    if (share_full(room))
        return Posted::kShareFull; // what comes back of it makes it ready again
    const auto copies = room.next_copies(context());
    if (!copies)
        return Posted::kNothingToDo;
    const Transport *transport = copies->link->transport.get();
    LaneSlot *slot = lane_of(transport);
    if (!slot) {
        room.give_up({KVF_ERR_NO_TRANSPORT, config_.rank, "the transport " + transport->name() + " was unloaded"},
                     context());
        return Posted::kNothingToDo;
    }

    BatchLimits limits = config_.batch;
    limits.bytes = std::min(limits.bytes, config_.window_bytes - operations_.window_bytes());
    limits.strided = slot->lane->can(KVF_CAP_STRIDED);
    uint64_t bytes = 0;
    const uint32_t asked = copies->plan->next(segments_, limits, &bytes);
    uint32_t accepted = 0;
    const int code = slot->lane->post(copies->link->peer, KVF_OP_WRITE, segments_.data(), asked,
                                      operations_.next_token(), &accepted);
    if (code != KVF_OK) {
        const std::string why = take_plugin_sentence();
        if (copies->link->lost())
            room.cut_off();
        else
            room.give_up({code, config_.rank, transport->name() + ": " + (why.empty() ? status_text(code) : why)},
                         context());
        return Posted::kNothingToDo;
    }
    if (accepted < asked && !seeded(SeededFault::partial_post_is_whole))
        bytes = copies->plan->keep(accepted, limits);
    if (accepted == 0)
        return Posted::kStuck;

    operations_.add({room.handle().value, copies->receiver, accepted, bytes, copies->link});
    ++slot->in_flight;
    ++room.window_ops;
    room.window_bytes += bytes;
    if (!room.begun())
        begun_.push_back(room.handle().value);
    room.posted(copies->receiver, context());
    schedule(room);
    counters_.operations.fetch_add(1, std::memory_order_relaxed);
    counters_.segments.fetch_add(accepted, std::memory_order_relaxed);
    counters_.bytes.fetch_add(bytes, std::memory_order_relaxed);
    return Posted::kSome;
}

void Shard::reap_all() {
    for (LaneSlot &slot : lanes_)
        if (slot.in_flight != 0)
            reap(slot);
}

void Shard::reap(LaneSlot &slot) {
    kvf_completion completions[kCompletionsPerPoll];
    int count = 0;
    do {
        count = slot.lane->poll(completions, kCompletionsPerPoll);
        for (int i = 0; i < count; ++i)
            if (landed(completions[i]))
                --slot.in_flight;
    } while (count == static_cast<int>(kCompletionsPerPoll));
    if (count < 0)
        lane_failed(slot, count);
}

// The rooms on it end. What they have in flight is in flight until the lane says otherwise, so it is polled on.
void Shard::lane_failed(LaneSlot &slot, int code) {
    const std::string said = take_plugin_sentence();
    const std::string why = slot.transport->name() + ": " + (said.empty() ? status_text(code) : said);
    counters_.lane_failures.fetch_add(1, std::memory_order_relaxed);
    if (!std::exchange(slot.failed, true))
        log(KVF_LOG_ERROR, "polling a lane of shard %u: %s", config_.index, why.c_str());
    each_sender([&](SenderRoom &room) {
        if (!room.ended() && room.uses(slot.transport.get()))
            room.give_up({code, config_.rank, why}, context());
    });
}

// False for a completion of nothing that is in flight.
bool Shard::landed(const kvf_completion &completion) {
    const auto operation = operations_.take(completion.token);
    if (!operation) {
        counters_.stray_completions.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    const RoomHandle handle{operation->room};
    // The room is there: it is not quiesced while this operation is in flight.
    if (SenderRoom *room = sender(handle)) {
        --room->window_ops;
        room->window_bytes -= operation->bytes;
        contained(handle, [&] {
            room->landed(operation->receiver, completion.status, completion.message, completion.bytes,
                         operation->segments, context());
            settle(*room);
        });
    }
    return true;
}

// Not where rooms end: that may be over a completion whose text is the lane's until the next call.
void Shard::drain_ended() {
    for (const uint64_t room : ended_in_flight_)
        operations_.drain(room, [&](uint64_t token, const Operation &operation) {
            if (LaneSlot *slot = lane_of(operation.link->transport.get()))
                slot->lane->cancel(token);
        });
    ended_in_flight_.clear();
}

} // namespace kvf
