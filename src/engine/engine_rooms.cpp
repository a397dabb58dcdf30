// What callers do with rooms: checked against the room's word and what is registered, then a message to the shard.
#include "base/clock.h"
#include "base/status_text.h"
#include "control/bootstrap_address.h"
#include "control/codec.h"
#include "engine/engine.h"

#include <poll.h>

#include <algorithm>

namespace kvf {
namespace {

// A place in a shard's inbox, given back unless a letter takes it.
class Place {
  public:
    explicit Place(ShardThread &shard) : shard_(shard), held_(shard.reserve()) {}
    ~Place() {
        if (held_)
            shard_.give_back();
    }
    Place(const Place &) = delete;
    Place &operator=(const Place &) = delete;

    bool held() const { return held_; }
    void take(ShardThread::Letter letter) noexcept {
        held_ = false;
        shard_.push(std::move(letter));
    }

  private:
    ShardThread &shard_;
    bool held_;
};

template <typename Message>
ShardThread::Letter write(Message &&message) {
    return Mailbox<ToShard>::write(std::forward<Message>(message));
}

Status inbox_full(uint64_t room_id, uint64_t inbox) {
    return fail(KVF_ERR_AGAIN, "the inbox of room %llu's shard holds %llu calls already",
                static_cast<unsigned long long>(room_id), static_cast<unsigned long long>(inbox));
}

// What tells a receiver's peer from that of another receiver of the same id.
std::string place_of(const Target &target) {
    switch (target.dp_choice) {
        case KVF_DP_GIVEN:
            return target.prefill + text(" (dp rank %u)", target.dp_rank);
        case KVF_DP_ASK:
            return target.prefill + " (dp rank as registered)";
        default:
            return target.prefill;
    }
}

} // namespace

Status Engine::look_up(RoomHandle room, RoomWord *word) const {
    const int code = rooms_->load(room, word);
    return code == KVF_OK ? Status() : rooms_->refuse(room, code);
}

Status Engine::look_up_open(RoomHandle room, RoomRole role, const char *what) const {
    RoomWord word;
    Status found = look_up(room, &word);
    if (!found.ok())
        return found;
    const auto id = static_cast<unsigned long long>(rooms_->room_id(room));
    if (rooms_->role(room) != role)
        return fail(KVF_ERR_STATE, "room %llu is a %s: it does not %s", id,
                    role == RoomRole::kSender ? "receiver" : "sender", what);
    if (!word.ended())
        return {};
    if (word.state() == KVF_STATE_SUCCESS)
        return fail(KVF_ERR_STATE, "room %llu is at its end: Success", id);
    kvf_report report{};
    (void)rooms_->report(room, &report); // one that was closed just now has none
    return fail(KVF_ERR_STATE, "room %llu is at its end: %s%s%s", id, status_name(word.code()),
                report.message[0] != '\0' ? ": " : "", report.message);
}

RoomDeadlines Engine::deadlines(uint32_t bootstrap_ms, uint64_t bootstrap_default, uint32_t waiting_ms,
                                uint32_t transfer_ms) const {
    RoomDeadlines out;
    out.bootstrap_ns = (bootstrap_ms != 0 ? bootstrap_ms : bootstrap_default) * kNanosPerMilli;
    out.waiting_ns = (waiting_ms != 0 ? waiting_ms : waiting_ms_) * kNanosPerMilli;
    out.transfer_ns = (transfer_ms != 0 ? transfer_ms : transfer_ms_) * kNanosPerMilli;
    return out;
}

// Letters are written first: what comes behind a claim or an open must not fail.

Status Engine::open_sender(uint64_t room_id, const kvf_sender_options &options, RoomHandle *room) {
    if ((role_ & KVF_ROLE_PREFILL) == 0)
        return fail(KVF_ERR_STATE, "this engine's role is decode: it opens no sender");
    OpenSender message;
    message.room_id = room_id;
    message.receivers = std::max(options.receivers, 1u);
    message.deadlines = deadlines(options.bootstrap_ms, waiting_ms_, options.waiting_ms, options.transfer_ms);
    ShardThread::Letter letter = write(std::move(message));
    Place place(shard_for(room_id));
    if (!place.held())
        return inbox_full(room_id, inbox_);
    Status opened = rooms_->open(RoomRole::kSender, room_id, {}, room);
    if (!opened.ok())
        return opened;
    std::get<OpenSender>(letter->item).room = *room;
    place.take(std::move(letter));
    return {};
}

Status Engine::open_receiver(uint64_t room_id, const std::string &prefill, const kvf_receiver_options &options,
                             RoomHandle *room) {
    if ((role_ & KVF_ROLE_DECODE) == 0)
        return fail(KVF_ERR_STATE, "this engine's role is prefill: it opens no receiver");
    OpenReceiver message;
    message.room_id = room_id;
    if (Status named = parse_prefill(prefill, &message.target.prefill); !named.ok())
        return named;
    if (message.target.prefill == address())
        return fail(KVF_ERR_INVALID, "prefill %s is this engine itself; rooms are between two", address().c_str());
    message.target.dp_choice = options.dp_choice;
    message.target.dp_rank = options.dp_choice == KVF_DP_GIVEN ? options.dp_rank : 0;
    message.prefix_tokens = options.prefix_tokens;
    message.deadlines = deadlines(options.bootstrap_ms, bootstrap_ms_, options.waiting_ms, options.transfer_ms);
    const std::string where = place_of(message.target);
    ShardThread::Letter letter = write(std::move(message));
    Place place(shard_for(room_id));
    if (!place.held())
        return inbox_full(room_id, inbox_);
    Status opened = rooms_->open(RoomRole::kReceiver, room_id, where, room);
    if (!opened.ok())
        return opened;
    std::get<OpenReceiver>(letter->item).room = *room;
    place.take(std::move(letter));
    return {};
}

Status Engine::accept(RoomHandle room, std::vector<PageRuns> lists) {
    Status open = look_up_open(room, RoomRole::kReceiver, "accept pages");
    if (open.ok())
        open = check_offer(lists);
    if (!open.ok())
        return open;
    const uint64_t room_id = rooms_->room_id(room);
    ShardThread::Letter letter = write(Accept{room, std::move(lists), monotonic_ns()});
    Place place(shard_for(room_id));
    if (!place.held())
        return inbox_full(room_id, inbox_);
    if (!rooms_->claim(room, RoomTable::kAccepted))
        return fail(KVF_ERR_STATE, "room %llu has accepted its pages before", static_cast<unsigned long long>(room_id));
    place.take(std::move(letter));
    return {};
}

Status Engine::send(RoomHandle room, std::unique_ptr<Chunk> chunk) {
    Status open = look_up_open(room, RoomRole::kSender, "send");
    if (!open.ok())
        return open;
    const uint64_t room_id = rooms_->room_id(room);
    const bool last = chunk->last;
    chunk->queued_ns = monotonic_ns();
    ShardThread::Letter letter = write(SendChunk{room, std::move(chunk)});
    Place place(shard_for(room_id));
    if (!place.held())
        return inbox_full(room_id, inbox_);
    const bool follows =
        last ? rooms_->claim(room, RoomTable::kLastSent) : !rooms_->claimed(room, RoomTable::kLastSent);
    if (!follows)
        return fail(KVF_ERR_AFTER_LAST, "room %llu has had its last chunk", static_cast<unsigned long long>(room_id));
    place.take(std::move(letter));
    return {};
}

Status Engine::abort(RoomHandle room, std::string reason) {
    RoomWord word;
    Status found = look_up(room, &word);
    if (found.ok() && !word.ended())
        shard_for(rooms_->room_id(room)).push(AbortRoom{room, std::move(reason)});
    return found;
}

Status Engine::close(RoomHandle room) {
    RoomWord word;
    Status found = look_up(room, &word);
    if (!found.ok())
        return found;
    const uint64_t room_id = rooms_->room_id(room);
    ShardThread::Letter letter = write(CloseRoom{room});
    const int code = rooms_->retire(room);
    if (code == KVF_ERR_BUSY)
        return fail(code, "room %llu is not %s", static_cast<unsigned long long>(room_id),
                    word.ended() ? "quiesced" : "at its end");
    if (code != KVF_OK)
        return rooms_->refuse(room, code);
    shard_for(room_id).push(std::move(letter));
    return {};
}

Status Engine::close_deferred(RoomHandle room) {
    RoomWord word;
    Status found = look_up(room, &word);
    if (!found.ok())
        return found;
    const uint64_t room_id = rooms_->room_id(room);
    ShardThread::Letter letter = write(CloseRoomDeferred{room});
    if (rooms_->claim(room, RoomTable::kDeferred))
        shard_for(room_id).push(std::move(letter));
    return {};
}

Status Engine::wait(RoomHandle room, uint32_t timeout_ms, RoomWord *word) {
    const uint64_t until = monotonic_ns() + uint64_t{timeout_ms} * kNanosPerMilli;
    for (;;) {
        Status found = look_up(room, word);
        if (!found.ok() || word->ended())
            return found;
        const uint64_t now = monotonic_ns();
        if (now >= until)
            return fail(KVF_ERR_TIMEOUT, "room %llu was not at its end after %u ms",
                        static_cast<unsigned long long>(rooms_->room_id(room)), timeout_ms);
        rooms_->wait(room, *word, until - now);
    }
}

int Engine::events(kvf_event *events, size_t capacity, size_t stride, uint32_t timeout_ms) {
    const uint64_t until = monotonic_ns() + uint64_t{timeout_ms} * kNanosPerMilli;
    for (;;) {
        size_t count = 0;
        uint32_t slot = 0;
        events_->begin();
        while (count < capacity && events_->pop(&slot)) {
            RoomHandle room;
            RoomWord word;
            uint64_t room_id = 0;
            if (!rooms_->at(slot, &room, &word, &room_id))
                continue;
            auto *event = reinterpret_cast<kvf_event *>(reinterpret_cast<char *>(events) + count * stride);
            *event = {KVF_EVENT_ROOM, word.state(), word.flags(), word.code(), {room.value}, room_id};
            ++count;
        }
        events_->end();
        const uint64_t now = monotonic_ns();
        if (count != 0 || capacity == 0 || now >= until)
            return static_cast<int>(count);
        pollfd polled{events_->descriptor(), POLLIN, 0};
        const uint64_t left_ms = (until - now + kNanosPerMilli - 1) / kNanosPerMilli;
        poll(&polled, 1, static_cast<int>(std::min<uint64_t>(left_ms, 1'000'000)));
    }
}

} // namespace kvf
