#include "room/receiver_room.h"

#include "base/clock.h"
#include "base/seeded_fault.h"

namespace kvf {

ReceiverRoom::ReceiverRoom(OpenReceiver &&open, LinkRef known, const RoomContext &context)
    : Room(open.room, open.room_id, open.deadlines, context), target_(std::move(open.target)) {
    report_.prefix_tokens = open.prefix_tokens;
    file(context);
    if (known)
        found(std::move(known), context);
    else
        context.out.control.emplace_back(SeekPeer{handle(), id(), target_});
}

void ReceiverRoom::found(LinkRef link, const RoomContext &context) {
    if (ended() || link_)
        return;
    link_ = std::move(link);
    say("");
    report_.peer_instance = link_->instance;
    link_->transport->name().copy(report_.transport, sizeof report_.transport - 1);
    enter(KVF_STATE_WAITING, later(context.now, deadlines_.waiting_ns), context);
    if (accepted_)
        offer(context);
}

// What the report says until the peer is found.
void ReceiverRoom::delayed(std::string why, const RoomContext &context) {
    if (ended() || link_)
        return;
    delay_ = std::move(why);
    say(delay_);
    file(context);
}

void ReceiverRoom::refused(Cause cause, const RoomContext &context) {
    end(std::move(cause), true, context);
}

void ReceiverRoom::accept(Accept &&accept, const RoomContext &context) {
    if (ended() || accepted_)
        return;
    accepted_ = true;
    lists_ = std::move(accept.lists);
    report_.queued_ns = accept.at_ns;
    file(context);
    if (link_)
        offer(context);
}

void ReceiverRoom::offer(const RoomContext &context) {
    offered_ = true;
    context.out.control.emplace_back(SendOffer{link_, id(), handle(), report_.prefix_tokens, std::move(lists_)});
    lists_.clear();
}

bool ReceiverRoom::news(const RoomNews &news, const RoomContext &context) {
    if (!offered_)
        return false;
    switch (news.kind) {
        case RoomNews::kBegan:
            if (state() != KVF_STATE_WAITING)
                return false;
            report_.posted_ns = context.now;
            enter(KVF_STATE_TRANSFERRING, later(context.now, deadlines_.transfer_ns), context);
            return true;
        case RoomNews::kSuccess:
            report_.bytes = news.bytes;
            report_.segments = news.segments;
            return conclude({}, true, context);
        case RoomNews::kFailed:
            return conclude(news.cause, news.drained, context);
    }
    return false;
}

// What the sender says of the end. One that this side gave up meanwhile stays failed, and its answer to that is still
// to come.
bool ReceiverRoom::conclude(Cause cause, bool drained, const RoomContext &context) {
    if (quiesced())
        return false;
    end(std::move(cause), drained, context);
    return true;
}

bool ReceiverRoom::drained(const RoomContext &context) {
    if (!ended() || quiesced())
        return false;
    quiesce(context);
    return true;
}

void ReceiverRoom::give_up(Cause cause, const RoomContext &context) {
    if (ended())
        return;
    // With a peer the answer is waited for, also by a room whose pages nobody knows: once the handle can be closed and
    // the id opened again, no word of this room may be on its way.
    if (link_ && !seeded(SeededFault::abort_is_not_sent))
        context.out.control.emplace_back(SendAbort{link_, id(), handle(), offered_, cause});
    else if (!link_)
        context.out.control.emplace_back(ForgetPeer{handle(), id(), cause});
    end(std::move(cause), !link_, context);
}

void ReceiverRoom::deadline_passed(const RoomContext &context) {
    Cause cause;
    cause.rank = context.rank;
    if (state() == KVF_STATE_BOOTSTRAPPING) {
        cause.code = KVF_ERR_BOOTSTRAP;
        cause.sentence =
            text("%s: no agreement with prefill %s within %llu ms: %s", called().c_str(), target_.prefill.c_str(),
                 static_cast<unsigned long long>(deadlines_.bootstrap_ns / kNanosPerMilli),
                 delay_.empty() ? "it has not answered" : delay_.c_str());
    } else if (state() == KVF_STATE_WAITING) {
        cause.code = KVF_ERR_WAIT_DEADLINE;
        cause.sentence = text("%s: %s within %llu ms", called().c_str(),
                              accepted_ ? "the transfer did not begin" : "no pages were accepted",
                              static_cast<unsigned long long>(deadlines_.waiting_ns / kNanosPerMilli));
    } else {
        cause.code = KVF_ERR_TRANSFER_DEADLINE;
        cause.sentence = text("%s: the transfer did not end within %llu ms", called().c_str(),
                              static_cast<unsigned long long>(deadlines_.transfer_ns / kNanosPerMilli));
    }
    give_up(std::move(cause), context);
}

void ReceiverRoom::lost(const Cause &cause, const RoomContext &context) {
    end(cause, !offered_ || seeded(SeededFault::lost_is_quiesced), context);
    if (quiesced())
        return;
    if (!offered_)
        return quiesce(context);
    // A sender that lives will say on another connection when nothing is in flight; one that died is fenced.
    settling_ = true;
    if (seeded(SeededFault::lost_is_not_settled))
        return;
    context.out.control.emplace_back(SettleRoom{link_, id(), handle(), this->cause()});
}

void ReceiverRoom::fenced(const RoomContext &context) {
    if (!ended() || quiesced())
        return;
    quiesce(context);
    if (settling_)
        context.out.control.emplace_back(ForgetPeer{handle(), id(), cause(), false});
}

} // namespace kvf
