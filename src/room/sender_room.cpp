#include "room/sender_room.h"

#include "base/clock.h"
#include "base/seeded_fault.h"
#include "base/status_text.h"

#include <algorithm>
#include <utility>

namespace kvf {
namespace {

// How long a sender waits for a receiver that offered and was lost: for its engine to connect again and to offer.
constexpr uint64_t kLostOffersAgainNs = 10'000 * kNanosPerMilli;

const PageList *find_list(const std::vector<PageList> &lists, uint32_t group) {
    const auto found = std::find_if(lists.begin(), lists.end(), [&](const PageList &l) { return l.group == group; });
    return found == lists.end() ? nullptr : &*found;
}

// A group that is not named has none.
size_t pages_of(const std::vector<PageList> &lists, uint32_t group) {
    const PageList *list = find_list(lists, group);
    return list ? list->pages.size() : 0;
}

uint64_t pages_of(const std::vector<PageRuns> &lists, uint32_t group) {
    const auto found = std::ranges::find(lists, group, &PageRuns::group);
    return found == lists.end() ? 0 : found->pages();
}

} // namespace

Cause as_told(Cause cause) {
    if (cause.code == KVF_ERR_ABORTED)
        cause.code = KVF_ERR_PEER_ABORTED;
    else if (cause.code == KVF_ERR_CLOSED)
        cause.code = KVF_ERR_PEER_CLOSED;
    return cause;
}

SenderRoom::SenderRoom(const OpenSender &open, const RoomContext &context)
    : Room(open.room, open.room_id, open.deadlines, context), expected_(open.receivers) {
    file(context);
}

bool SenderRoom::knows(uint64_t instance, uint64_t token) const {
    return std::any_of(receivers_.begin(), receivers_.end(), [&](const Receiver &receiver) {
        return receiver.instance == instance && receiver.token == token;
    });
}

void SenderRoom::turn_away() {
    turned_away_ = std::min(turned_away_ + 1, receivers_missing());
}

void SenderRoom::offer(OfferCame &&offer, const RoomContext &context) {
    if (ended()) {
        turn_away();
        return reject(offer, as_told(cause()), context);
    }
    if (receivers_missing() == 0)
        return reject(
            offer,
            {KVF_ERR_UNCLAIMED, context.rank, text("%s has its %u receivers already", called().c_str(), expected_)},
            context);

    Receiver receiver;
    receiver.link = std::move(offer.link);
    receiver.routes = std::move(offer.routes);
    receiver.instance = receiver.link->instance;
    receiver.token = offer.receiver;
    receiver.name = receiver.link->name;
    const Status fits = check_offer(receiver, offer.lists);
    if (fits.ok())
        for (const PageRuns &list : offer.lists)
            receiver.lists.push_back(list.expand());
    if (receivers_.empty()) {
        report_.peer_instance = receiver.instance;
        report_.prefix_tokens = offer.prefix_tokens;
        receiver.link->transport->name().copy(report_.transport, sizeof report_.transport - 1);
    }
    report_.prefix_tokens = std::min(report_.prefix_tokens, offer.prefix_tokens);
    const auto rank = static_cast<int32_t>(receiver.link->rank);
    receivers_.push_back(std::move(receiver));
    if (!fits.ok())
        fail_room({fits.code(), rank, fits.sentence()}, context);
    else if (receivers_missing() == 0)
        enter(KVF_STATE_WAITING, later(context.now, deadlines_.waiting_ns), context);
}

Status SenderRoom::check_offer(const Receiver &receiver, const std::vector<PageRuns> &lists) const {
    for (const PageRuns &list : lists) {
        const GroupRoute *route = receiver.routes->find(list.group());
        if (!route)
            return fail(KVF_ERR_GROUP, "%s: %s offers pages of group %u, in which the engines have no tensor in common",
                        called().c_str(), receiver.name.c_str(), list.group());
        if (list.pages() != 0 && list.highest() >= route->remote_pages)
            return fail(KVF_ERR_PAGE, "%s: %s offers page %u of group %u, of which it registered %llu pages",
                        called().c_str(), receiver.name.c_str(), list.highest(), list.group(),
                        static_cast<unsigned long long>(route->remote_pages));
    }
    if (receivers_.empty())
        return {};
    // Chunks go to all receivers alike, so all must have room for the same: looked at from both, as either may name
    // groups that the other does not.
    const Receiver &first = receivers_.front();
    const auto compare = [&](uint32_t group) {
        const uint64_t here = pages_of(lists, group);
        const uint64_t there = pages_of(first.lists, group);
        return here == there ? Status()
                             : fail(KVF_ERR_LENGTH, "%s: %s offers %llu pages of group %u, %s offered %llu",
                                    called().c_str(), receiver.name.c_str(), static_cast<unsigned long long>(here),
                                    group, first.name.c_str(), static_cast<unsigned long long>(there));
    };
    for (const PageRuns &list : lists)
        if (Status same = compare(list.group()); !same.ok())
            return same;
    for (const PageList &list : first.lists)
        if (Status same = compare(list.group); !same.ok())
            return same;
    return {};
}

void SenderRoom::reject(const OfferCame &offer, Cause cause, const RoomContext &context) const {
    RoomNews news;
    news.kind = RoomNews::kFailed;
    news.drained = true;
    news.cause = std::move(cause);
    context.out.control.emplace_back(SendNews{offer.link, id(), offer.receiver, std::move(news)});
}

void SenderRoom::chunk(std::unique_ptr<Chunk> chunk, const RoomContext &context) {
    if (ended())
        return;
    if (report_.queued_ns == 0) {
        report_.queued_ns = chunk->queued_ns;
        file(context);
    }
    chunks_.push_back(std::move(chunk));
}

void SenderRoom::fence_fired(const RoomContext &context) {
    if (awaiting_fence_)
        stop_fence(context);
}

void SenderRoom::stop_fence(const RoomContext &context) {
    FenceWatch &watch = context.out.fences.emplace_back();
    watch.room = handle();
    watch.done = std::move(chunks_.front()->fence);
    awaiting_fence_ = false;
}

std::optional<SenderRoom::Copies> SenderRoom::next_copies(const RoomContext &context) {
    while (!ended() && !cut_off_ && receivers_missing() == 0 && !chunks_.empty()) {
        if (!front_planned_ && !prepare_front(context))
            return {};
        for (uint32_t i = 0; i < receivers_.size(); ++i)
            if (!receivers_[i].plan.done())
                return Copies{i, receivers_[i].link, &receivers_[i].plan};
        chunks_.pop_front();
        front_planned_ = false;
        conclude_if_done(context);
    }
    return {};
}

bool SenderRoom::prepare_front(const RoomContext &context) {
    if (chunks_.front()->fence.get() >= 0 && !seeded(SeededFault::chunk_fence_is_ignored)) {
        if (!awaiting_fence_) {
            context.out.fences.push_back({handle(), chunks_.front()->fence.get(), {}});
            awaiting_fence_ = true;
        }
        return false;
    }
    const Status planned = plan_front();
    if (!planned.ok()) {
        fail_room({planned.code(), context.rank, planned.sentence()}, context);
        return false;
    }
    front_planned_ = true;
    return true;
}

Status SenderRoom::plan_front() {
    const Chunk &chunk = *chunks_.front();
    for (Receiver &receiver : receivers_)
        receiver.plan = {};
    for (const PageList &list : chunk.lists) {
        if (list.pages.empty())
            continue;
        Status planned = plan_list(chunk, list);
        if (!planned.ok())
            return planned;
    }
    if (!chunk.last)
        return {};
    last_planned_ = true;
    return check_complete();
}

Status SenderRoom::plan_list(const Chunk &chunk, const PageList &list) {
    const PageList *offered = find_list(receivers_.front().lists, list.group);
    const GroupRoute *route = receivers_.front().routes->find(list.group);
    if (!offered || !route)
        return fail(KVF_ERR_LENGTH, "%s: a chunk has %zu pages of group %u, of which %s offered none", called().c_str(),
                    list.pages.size(), list.group, receivers_.front().name.c_str());

    auto progress = std::find_if(progress_.begin(), progress_.end(),
                                 [&](const Progress &known) { return known.group == list.group; });
    if (progress == progress_.end()) {
        Progress fresh{list.group, {}};
        for (const TensorRoute &tensor : route->tensors)
            if (fresh.layers.empty() || fresh.layers.back().first != tensor.layer)
                fresh.layers.emplace_back(tensor.layer, 0);
        progress = progress_.insert(progress_.end(), std::move(fresh));
    }

    std::optional<uint32_t> position;
    for (auto &[layer, pages] : progress->layers) {
        if (chunk.layer_count != 0 && (layer < chunk.layer_begin || layer - chunk.layer_begin >= chunk.layer_count))
            continue;
        if (!position)
            position = pages;
        else if (*position != pages)
            return fail(KVF_ERR_LENGTH,
                        "%s: a chunk of layers from %u finds group %u at page %u in layer %u and at %u "
                        "before it",
                        called().c_str(), chunk.layer_begin, list.group, pages, layer, *position);
        if (offered->pages.size() - pages < list.pages.size())
            return fail(KVF_ERR_LENGTH, "%s: a chunk has %zu pages of group %u behind the first %u, %s offered %zu",
                        called().c_str(), list.pages.size(), list.group, pages, receivers_.front().name.c_str(),
                        offered->pages.size());
        pages += static_cast<uint32_t>(list.pages.size());
    }
    if (!position)
        return fail(KVF_ERR_GROUP,
                    "%s: a chunk of layers [%u, %llu) has pages of group %u, which has none of these "
                    "layers",
                    called().c_str(), chunk.layer_begin,
                    static_cast<unsigned long long>(chunk.layer_begin) + chunk.layer_count, list.group);

    for (Receiver &receiver : receivers_) {
        const std::span<const uint32_t> remote(find_list(receiver.lists, list.group)->pages);
        receiver.plan.add(*receiver.routes->find(list.group), chunk.layer_begin, chunk.layer_count, list.pages,
                          remote.subspan(*position, list.pages.size()));
    }
    return {};
}

Status SenderRoom::check_complete() const {
    for (const PageList &offered : receivers_.front().lists) {
        if (offered.pages.empty())
            continue;
        const auto progress = std::find_if(progress_.begin(), progress_.end(),
                                           [&](const Progress &known) { return known.group == offered.group; });
        if (progress == progress_.end())
            return fail(KVF_ERR_LENGTH,
                        "%s: the last chunk is here and none had pages of group %u, of which %s offered "
                        "%zu",
                        called().c_str(), offered.group, receivers_.front().name.c_str(), offered.pages.size());
        for (const auto &[layer, pages] : progress->layers)
            if (pages != offered.pages.size())
                return fail(KVF_ERR_LENGTH,
                            "%s: the last chunk is here with %u pages of group %u in layer %u, %s offered "
                            "%zu",
                            called().c_str(), pages, offered.group, layer, receivers_.front().name.c_str(),
                            offered.pages.size());
    }
    return {};
}

void SenderRoom::posted(uint32_t receiver, const RoomContext &context) {
    ++receivers_[receiver].in_flight;
    ++in_flight_;
    if (state() == KVF_STATE_WAITING) {
        report_.posted_ns = context.now;
        enter(KVF_STATE_TRANSFERRING, later(context.now, deadlines_.transfer_ns), context);
    }
}

void SenderRoom::landed(uint32_t index, int status, const char *message, uint64_t bytes, uint32_t segments,
                        const RoomContext &context) {
    Receiver &receiver = receivers_[index];
    --receiver.in_flight;
    --in_flight_;
    receiver.bytes += bytes;
    report_.bytes += bytes;
    if (status == KVF_OK) {
        receiver.segments += segments;
        report_.segments += segments;
        report_.landed_ns = context.now;
    } else if (!ended() && receiver.link->lost()) {
        cut_off();
    } else if (!ended()) {
        fail_room({status, context.rank,
                   text("%s: writing to %s over %s: %s", called().c_str(), receiver.name.c_str(), report_.transport,
                        message ? message : status_text(status))},
                  context);
        return;
    }
    if (!ended()) {
        file(context);
        conclude_if_done(context);
        return;
    }
    settle(receiver, context);
    if (in_flight_ == 0)
        quiesce(context);
}

void SenderRoom::conclude_if_done(const RoomContext &context) {
    const bool planned = last_planned_ || seeded(SeededFault::last_chunk_is_not_awaited);
    const bool landed = in_flight_ == 0 || seeded(SeededFault::success_too_early);
    if (ended() || cut_off_ || !planned || !chunks_.empty() || !landed)
        return;
    end({}, true, context);
    for (Receiver &receiver : receivers_)
        settle(receiver, context);
}

void SenderRoom::tell_begun(const RoomContext &context) {
    if (begun_told_ || state() != KVF_STATE_TRANSFERRING)
        return;
    begun_told_ = true;
    for (const Receiver &receiver : receivers_)
        context.out.control.emplace_back(SendNews{receiver.link, id(), receiver.token, {}});
}

bool SenderRoom::receiver_aborted(AbortCame &&abort, const RoomContext &context) {
    Cause why = as_told(std::move(abort.cause));
    const auto receiver = std::find_if(receivers_.begin(), receivers_.end(), [&](const Receiver &known) {
        return known.instance == abort.instance && known.token == abort.receiver;
    });
    if (receiver == receivers_.end()) {
        if (!abort.offered && receivers_missing() != 0) {
            turn_away();
            fail_room(std::move(why), context);
        }
        return false;
    }
    receiver->told = true;
    receiver->owed_drained = abort.connection;
    if (ended())
        settle(*receiver, context);
    else
        fail_room(std::move(why), context);
    return true;
}

void SenderRoom::receiver_lost(Cause cause, const RoomContext &context) {
    if (ended() || receivers_missing() == 0)
        return;
    hurry(later(context.now, kLostOffersAgainNs));
    lost_ = std::move(cause);
}

void SenderRoom::give_up(Cause cause, const RoomContext &context) {
    fail_room(std::move(cause), context);
}

void SenderRoom::fail_room(Cause cause, const RoomContext &context) {
    if (!ended()) {
        if (awaiting_fence_)
            stop_fence(context);
        chunks_.clear();
        end(std::move(cause), in_flight_ == 0, context);
    }
    for (Receiver &receiver : receivers_)
        settle(receiver, context);
    if (in_flight_ == 0 && !quiesced())
        quiesce(context);
}

// Brings a receiver of a room at its end up to date: how it ended, and, as soon as it is true, that nothing is in
// flight.
void SenderRoom::settle(Receiver &receiver, const RoomContext &context) {
    const bool drained = receiver.in_flight == 0 || seeded(SeededFault::drained_too_early);
    if (!receiver.told) {
        RoomNews news;
        news.kind = cause().code == KVF_OK ? RoomNews::kSuccess : RoomNews::kFailed;
        news.drained = drained;
        news.cause = as_told(cause());
        news.bytes = receiver.bytes;
        news.segments = receiver.segments;
        context.out.control.emplace_back(SendNews{receiver.link, id(), receiver.token, std::move(news)});
        receiver.told = true;
        if (!drained)
            receiver.owed_drained = receiver.link->id;
        return;
    }
    if (drained && receiver.owed_drained != 0) {
        context.out.control.emplace_back(SendDrained{receiver.owed_drained, id(), receiver.token});
        receiver.owed_drained = 0;
    }
}

void SenderRoom::deadline_passed(const RoomContext &context) {
    Cause why;
    why.rank = context.rank;
    if (state() == KVF_STATE_BOOTSTRAPPING && lost_) {
        why = std::move(*lost_);
    } else if (state() == KVF_STATE_BOOTSTRAPPING) {
        why.code = KVF_ERR_BOOTSTRAP;
        why.sentence =
            text("%s: %zu of %u receivers offered their pages within %llu ms", called().c_str(), receivers_.size(),
                 expected_, static_cast<unsigned long long>(deadlines_.bootstrap_ns / kNanosPerMilli));
    } else if (state() == KVF_STATE_WAITING) {
        why.code = KVF_ERR_WAIT_DEADLINE;
        why.sentence = text("%s: %s within %llu ms", called().c_str(),
                            chunks_.empty() ? "no chunk was sent" : "the first chunk could not be posted",
                            static_cast<unsigned long long>(deadlines_.waiting_ns / kNanosPerMilli));
    } else {
        why.code = KVF_ERR_TRANSFER_DEADLINE;
        why.sentence = text("%s: the transfer did not end within %llu ms: %u operations in flight, %s",
                            called().c_str(), static_cast<unsigned long long>(deadlines_.transfer_ns / kNanosPerMilli),
                            in_flight_, last_planned_ ? "the last chunk is posted" : "the last chunk is not here");
    }
    fail_room(std::move(why), context);
}

void SenderRoom::lost(const LinkRef &link, const Cause &cause, const RoomContext &context) {
    bool ours = false;
    for (Receiver &receiver : receivers_) {
        if (receiver.owed_drained == link->id)
            receiver.owed_drained = 0;
        if (receiver.link != link)
            continue;
        ours = true;
        receiver.link.reset();
        receiver.told = true;
    }
    if (ours)
        fail_room(cause, context);
}

bool SenderRoom::uses(const Transport *transport) const {
    return std::any_of(receivers_.begin(), receivers_.end(), [&](const Receiver &receiver) {
        return receiver.link && receiver.link->transport.get() == transport;
    });
}

} // namespace kvf
