#include "room/shard.h"

#include "base/log.h"
#include "base/seeded_fault.h"

#include <algorithm>
#include <type_traits>

namespace kvf {

constexpr size_t kMostKnown = 1024;
// Between two lines about failures that were contained: without memory there may be one in every turn.
constexpr uint64_t kLogPauseNs = 1000 * kNanosPerMilli;

Shard::Shard(const ShardConfig &config, RoomTable &table)
    : config_(config),
      table_(table),
      unclaimed_(config.max_unclaimed, config.max_unclaimed_bytes),
      early_ends_(config.max_early_ends),
      segments_(config.batch.segments) {}

void Shard::handle(ToShard &&message, uint64_t now) noexcept {
    now_ = now;
    contained(concerned(message),
              [&] { std::visit([this](auto &&body) { on(std::forward<decltype(body)>(body)); }, std::move(message)); });
}

// --------------------------------------------------------------------------------------------- what must not end a
// process

RoomHandle Shard::concerned(const ToShard &message) const {
    return std::visit(
        [this](const auto &body) -> RoomHandle {
            using Body = std::decay_t<decltype(body)>;
            if constexpr (requires { body.room; })
                return body.room;
            else if constexpr (std::is_same_v<Body, NewsCame> || std::is_same_v<Body, DrainedCame>)
                return {body.receiver};
            else if constexpr (requires { body.room_id; }) {
                const auto found = senders_by_id_.find(body.room_id);
                return found == senders_by_id_.end() ? RoomHandle{} : found->second->handle();
            } else
                return {};
        },
        message);
}

void Shard::contain(RoomHandle room, int code, const char *what) noexcept {
    if (contained_ns_ == 0 || now_ - contained_ns_ >= kLogPauseNs) {
        contained_ns_ = now_;
        log(KVF_LOG_ERROR, "shard %u, room handle 0x%llx: %s", config_.index,
            static_cast<unsigned long long>(room.value), what);
    }
    try {
        give_up(room, {code, config_.rank, what});
    } catch (const std::exception &error) {
        log(KVF_LOG_ERROR, "shard %u: the room could not be failed: %s", config_.index, error.what());
    }
}

void Shard::give_up(RoomHandle handle, const Cause &cause) {
    RoomWord word;
    if (SenderRoom *room = sender(handle)) {
        room->give_up(cause, context());
        settle(*room);
    } else if (ReceiverRoom *room = receiver(handle)) {
        room->give_up(cause, context());
        settle(*room);
    } else if (table_.load(handle, &word) == KVF_OK && !word.ended()) {
        // There was no memory to make it with: all that there is of it is its slot.
        output_.changed.push_back(handle.slot());
        table_.publish(handle, KVF_STATE_FAILED, KVF_ROOM_QUIESCED, cause.code);
        counters_.rooms_failed.fetch_add(1, std::memory_order_relaxed);
    }
}

SenderRoom *Shard::sender(RoomHandle room) {
    const auto found = senders_.find(room.value);
    return found == senders_.end() ? nullptr : found->second.get();
}

ReceiverRoom *Shard::receiver(RoomHandle room) {
    const auto found = receivers_.find(room.value);
    return found == receivers_.end() ? nullptr : found->second.get();
}

// ------------------------------------------------------------------------------------------------- what callers ask

void Shard::on(OpenSender &&message) {
    counters_.rooms_opened.fetch_add(1, std::memory_order_relaxed);
    auto owned = std::make_unique<SenderRoom>(message, context());
    SenderRoom &room = *owned;
    senders_.emplace(message.room.value, std::move(owned));
    senders_by_id_[message.room_id] = &room;
    early_ends_.forget(message.room_id);
    for (Unclaimed::Entry &entry : unclaimed_.claim(message.room_id)) {
        if (entry.lost)
            room.receiver_lost(std::move(entry.cause), context());
        else if (!entry.offer)
            room.receiver_aborted(
                AbortCame{0, entry.instance, entry.room_id, entry.receiver, false, std::move(entry.cause)}, context());
        else if (room.knows(entry.instance, entry.receiver))
            late();
        else
            room.offer(std::move(*entry.offer), context());
    }
    if (closing_) {
        room.closing = true;
        room.give_up(*closing_, context());
    }
    settle(room);
}

void Shard::on(OpenReceiver &&message) {
    counters_.rooms_opened.fetch_add(1, std::memory_order_relaxed);
    const RoomHandle handle = message.room;
    const auto known = known_.find(message.target);
    LinkRef link = known == known_.end() ? nullptr : known->second;
    auto owned = std::make_unique<ReceiverRoom>(std::move(message), std::move(link), context());
    ReceiverRoom &room = *owned;
    receivers_.emplace(handle.value, std::move(owned));
    if (closing_) {
        room.closing = true;
        room.give_up(*closing_, context());
    }
    settle(room);
}

void Shard::on(Accept &&message) {
    if (ReceiverRoom *room = receiver(message.room)) {
        room->accept(std::move(message), context());
        settle(*room);
    }
}

void Shard::on(SendChunk &&message) {
    if (SenderRoom *room = sender(message.room)) {
        room->chunk(std::move(message.chunk), context());
        settle(*room);
    }
}

void Shard::on(AbortRoom &&message) {
    give_up(message.room, {KVF_ERR_ABORTED, config_.rank, std::move(message.reason)});
}

void Shard::on(CloseRoom &&message) {
    erase(message.room);
}

void Shard::on(CloseRoomDeferred &&message) {
    if (SenderRoom *room = sender(message.room))
        room->closing = true;
    else if (ReceiverRoom *room = receiver(message.room))
        room->closing = true;
    else if (table_.retire(message.room) == KVF_OK) // one that could not be made
        return erase(message.room);
    give_up(message.room, {KVF_ERR_ABORTED, config_.rank, "closed before its end"});
}

void Shard::on(EndAllRooms &&message) {
    closing_ = message.cause;
    ended_ = std::move(message.tally);
    each_sender([&](SenderRoom &room) {
        room.closing = true;
        room.give_up(message.cause, context());
    });
    each_receiver([&](ReceiverRoom &room) {
        room.closing = true;
        room.give_up(message.cause, context());
    });
}

std::shared_ptr<Tally> Shard::take_ended() {
    return senders_.empty() && receivers_.empty() && operations_.count() == 0 ? std::move(ended_) : nullptr;
}

void Shard::fence_fired(RoomHandle handle, uint64_t now) noexcept {
    now_ = now;
    contained(handle, [&] {
        if (SenderRoom *room = sender(handle)) {
            room->fence_fired(context());
            settle(*room);
        }
    });
}

void Shard::fence_failed(RoomHandle handle, const Status &why, uint64_t now) noexcept {
    now_ = now;
    contained(handle, [&] {
        if (const SenderRoom *room = sender(handle))
            give_up(handle, {why.code(), config_.rank,
                             text("room %llu: a chunk's fence: %s", static_cast<unsigned long long>(room->id()),
                                  why.sentence().c_str())});
    });
}

// -------------------------------------------------------------------------------------------------- what peers say

void Shard::on(PeerFound &&message) {
    ReceiverRoom *const room = receiver(message.room);
    if (!room || room->ended()) {
        // It gave up meanwhile, and control has nobody to tell of it any more.
        const Cause cause =
            room ? room->cause() : Cause{KVF_ERR_ABORTED, config_.rank, "closed before its peer was found"};
        output_.control.emplace_back(SendAbort{std::move(message.link), message.room_id, message.room, false, cause});
    } else {
        if (message.for_target) {
            // Callers who name ever new targets cost themselves the short cut, not memory.
            if (known_.size() >= kMostKnown)
                known_.clear();
            known_[room->target()] = message.link;
        }
        room->found(std::move(message.link), context());
        settle(*room);
    }
}

void Shard::on(LinkRetired &&message) {
    forget_link(message.link);
}

void Shard::forget_link(uint64_t link) {
    std::erase_if(known_, [&](const auto &entry) { return entry.second->id == link; });
}

void Shard::on(PeerDelayed &&message) {
    if (ReceiverRoom *room = receiver(message.room))
        room->delayed(std::move(message.why), context());
}

void Shard::on(PeerRefused &&message) {
    if (ReceiverRoom *room = receiver(message.room)) {
        room->refused(std::move(message.cause), context());
        settle(*room);
    }
}

void Shard::on(OfferCame &&message) {
    const auto found = senders_by_id_.find(message.room_id);
    if (found != senders_by_id_.end()) {
        SenderRoom &room = *found->second;
        if (room.knows(message.link->instance, message.receiver))
            return late();
        if (!room.finished()) {
            room.offer(std::move(message), context());
            return settle(room);
        }
    }
    if (closing_) {
        refuse(message, as_told(*closing_));
    } else if (auto early = early_ends_.answer(message.room_id, unclaimed_limit())) {
        refuse(message, std::move(*early));
    } else {
        for (Unclaimed::Entry &entry : unclaimed_.add(std::move(message), now_))
            drop_unclaimed(std::move(entry));
    }
}

void Shard::on(NewsCame &&message) {
    ReceiverRoom *room = receiver({message.receiver});
    if (!room || room->id() != message.room_id || !room->link() || room->link()->id != message.link ||
        !room->news(message.news, context())) {
        late();
        return;
    }
    settle(*room);
}

void Shard::on(DrainedCame &&message) {
    ReceiverRoom *room = receiver({message.receiver});
    const bool known = room && room->id() == message.room_id && room->link() &&
                       (room->link()->instance == message.instance || seeded(SeededFault::any_instance_settles));
    if (!known || !room->drained(context())) {
        late();
        return;
    }
    settle(*room);
}

void Shard::on(AbortCame &&message) {
    const uint64_t connection = message.connection;
    const uint64_t room_id = message.room_id;
    const uint64_t token = message.receiver;
    const auto found = senders_by_id_.find(room_id);
    if (found != senders_by_id_.end() &&
        (!found->second->finished() || found->second->knows(message.instance, token))) {
        SenderRoom &room = *found->second;
        const bool answers = room.receiver_aborted(std::move(message), context());
        settle(room);
        if (answers)
            return;
    } else if (!seeded(SeededFault::abort_leaves_the_offer) && unclaimed_.retract(message)) {
        // Whoever opens the room will find it given up.
    } else if (message.offered) {
        late();
    } else if (!early_ends_.answer(room_id, unclaimed_limit())) {
        for (Unclaimed::Entry &entry : unclaimed_.add_abort(message, now_))
            drop_unclaimed(std::move(entry));
    }
    // Nothing of it is in flight: rooms that are gone were quiesced, and an unclaimed offer moves nothing.
    if (connection != 0)
        output_.control.emplace_back(SendDrained{connection, room_id, token});
}

void Shard::on(LinkLost &&message) {
    forget_link(message.link->id);
    unclaimed_.lost(message.link, message.cause);
    each_sender([&](SenderRoom &room) { room.lost(message.link, message.cause, context()); });
    each_receiver([&](ReceiverRoom &room) {
        if (room.link() == message.link)
            room.lost(message.cause, context());
    });
}

void Shard::on(LinkFenced &&message) {
    each_receiver([&](ReceiverRoom &room) {
        if (room.link() && room.link()->id == message.link)
            room.fenced(context());
    });
}

void Shard::refuse(const OfferCame &offer, Cause cause) {
    RoomNews news;
    news.kind = RoomNews::kFailed;
    news.drained = true;
    news.cause = std::move(cause);
    output_.control.emplace_back(SendNews{offer.link, offer.room_id, offer.receiver, std::move(news)});
}

void Shard::drop_unclaimed(Unclaimed::Entry &&entry) {
    counters_.unclaimed_dropped.fetch_add(1, std::memory_order_relaxed);
    if (entry.offer)
        refuse(*entry.offer,
               {KVF_ERR_UNCLAIMED, config_.rank,
                text("room %llu was not opened on the prefill side; this shard keeps %zu offers in %zu bytes for %llu "
                     "ms at most",
                     static_cast<unsigned long long>(entry.room_id), config_.max_unclaimed, config_.max_unclaimed_bytes,
                     static_cast<unsigned long long>(config_.unclaimed_ns / kNanosPerMilli))});
}

// --------------------------------------------------------------------------------------------- deadlines and the end

void Shard::settle(SenderRoom &room) {
    if (!room.ended() && !room.queued) {
        ready_.push_back(room.handle().value);
        room.queued = true;
    }
    settle_end(room);
}

void Shard::settle_end(SenderRoom &room) {
    if (room.ended() && !room.quiesced() && !room.draining) {
        ended_in_flight_.push_back(room.handle().value);
        room.draining = true;
    }
    settle_end(static_cast<Room &>(room));
}

void Shard::settle(ReceiverRoom &room) {
    if (room.quiesced())
        room.let_go();
    settle_end(room);
}

// May free the room.
void Shard::settle_end(Room &room) {
    schedule(room);
    if (room.ended() && !room.counted) {
        room.counted = true;
        (room.cause().code == KVF_OK ? counters_.rooms_succeeded : counters_.rooms_failed)
            .fetch_add(1, std::memory_order_relaxed);
    }
    if (room.closing && room.quiesced() && table_.retire(room.handle()) == KVF_OK)
        erase(room.handle());
}

void Shard::schedule(Room &room) {
    if (room.filed_deadline == room.deadline())
        return;
    if (room.filed_deadline != kNever)
        deadlines_.erase({room.filed_deadline, room.handle().value});
    room.filed_deadline = room.deadline();
    if (room.filed_deadline != kNever)
        deadlines_.emplace(room.filed_deadline, room.handle().value);
}

void Shard::erase(RoomHandle handle) {
    const auto found = senders_.find(handle.value);
    if (found == senders_.end()) {
        receivers_.erase(handle.value);
        return table_.release(handle);
    }
    const std::unique_ptr<SenderRoom> room = std::move(found->second);
    senders_.erase(found);
    table_.release(handle);
    // The id may have been opened again meanwhile.
    const auto named = senders_by_id_.find(room->id());
    if (named == senders_by_id_.end() || named->second != room.get())
        return;
    senders_by_id_.erase(named);
    if (!room->finished())
        early_ends_.add(room->id(), as_told(room->cause()), room->unanswered(), now_);
}

void Shard::expire() {
    while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
        const RoomHandle room{deadlines_.begin()->second};
        if (!contained(room, [&] { trip(room); }))
            break; // it may be there still; other things first
    }
    while (auto entry = unclaimed_.expired(unclaimed_limit()))
        drop_unclaimed(std::move(*entry));
}

void Shard::trip(RoomHandle handle) {
    if (SenderRoom *room = sender(handle)) {
        room->deadline_passed(context());
        settle(*room);
    } else if (ReceiverRoom *room = receiver(handle)) {
        room->deadline_passed(context());
        settle(*room);
    }
}

uint64_t Shard::next_deadline() const {
    const uint64_t rooms = deadlines_.empty() ? kNever : deadlines_.begin()->first;
    const uint64_t oldest = unclaimed_.oldest_ns();
    return std::min(rooms, oldest == kNever ? kNever : later(oldest, config_.unclaimed_ns));
}

} // namespace kvf
