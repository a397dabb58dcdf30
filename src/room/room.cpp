#include "room/room.h"

#include "base/clock.h"
#include "base/seeded_fault.h"

namespace kvf {

uint64_t later(uint64_t now, uint64_t length) {
    return length > kNever - now ? kNever : now + length;
}

Room::Room(RoomHandle handle, uint64_t id, const RoomDeadlines &deadlines, const RoomContext &context)
    : deadlines_(deadlines), handle_(handle), id_(id), deadline_(later(context.now, deadlines.bootstrap_ns)) {
    report_.opened_ns = context.now;
    report_.rank = -1;
}

std::string Room::called() const {
    return text("room %llu", static_cast<unsigned long long>(id_));
}

void Room::enter(uint8_t state, uint64_t deadline, const RoomContext &context) {
    announce(context);
    state_ = state;
    deadline_ = seeded(SeededFault::deadline_is_forgotten) ? kNever : deadline;
    if (state == KVF_STATE_WAITING)
        report_.waiting_ns = context.now;
    publish(context);
}

bool Room::end(Cause cause, bool quiesced, const RoomContext &context) {
    if (ended() && !(seeded(SeededFault::later_cause_wins) && cause.code != KVF_OK))
        return false;
    announce(context);
    state_ = cause.code == KVF_OK ? KVF_STATE_SUCCESS : KVF_STATE_FAILED;
    quiesced_ = quiesced || seeded(SeededFault::failed_is_quiesced);
    deadline_ = kNever;
    report_.ended_ns = context.now;
    report_.quiesced_ns = quiesced ? context.now : 0;
    report_.rank = cause.rank;
    say(cause.sentence);
    cause_ = std::move(cause);
    publish(context);
    return true;
}

void Room::say(std::string_view sentence) {
    report_.message[sentence.copy(report_.message, sizeof report_.message - 1)] = '\0';
}

void Room::quiesce(const RoomContext &context) {
    announce(context);
    quiesced_ = true;
    report_.quiesced_ns = context.now;
    publish(context);
}

void Room::announce(const RoomContext &context) const {
    context.out.changed.push_back(handle_.slot());
}

// The report first: with the word of a quiesced end a caller may retire the slot.
void Room::publish(const RoomContext &context) {
    file(context);
    context.table.publish(handle_, state_, quiesced_ ? KVF_ROOM_QUIESCED : 0, cause_.code);
}

} // namespace kvf
