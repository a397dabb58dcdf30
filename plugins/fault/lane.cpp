// The lane's calls. No decision is drawn but in post, so that outcomes do not depend on how often a lane is polled.
#include "lane.h"

#include "host.h"

#include <time.h>

#include <algorithm>
#include <memory>

namespace fault {
namespace {

constexpr uint64_t kMillisecond = 1000000;
constexpr uint32_t kBatch = 32;
constexpr uint64_t kMostLatePolls = 8;

} // namespace

Lane::Lane(Instance *instance, uint32_t shard) : instance_(instance), random_(instance->options().seed, shard) {}

int Lane::open(Instance *instance, uint32_t shard, Lane **out) {
    const Inner &inner = instance->inner();
    std::unique_ptr<Lane> lane(new Lane(instance, shard));
    if (const int rc = inner.ops.lane_open(inner.instance, shard, &lane->inner_); rc != KVF_OK) {
        lane->inner_ = nullptr;
        return rc;
    }
    if (inner.ops.event_fd != nullptr && (inner.capabilities & KVF_CAP_EVENT_FD) != 0) {
        const int fd = inner.ops.event_fd(lane->inner_);
        if (fd < 0)
            return fd;
        if (const int rc = lane->wake_.open(fd); rc != KVF_OK)
            return rc;
    }
    instance->add(lane.get());
    *out = lane.release();
    return KVF_OK;
}

Lane::~Lane() {
    if (inner_ == nullptr)
        return;
    instance_->remove(this);
    for (int i = 0; i < 1000 && inner_busy(); ++i) {
        if (drive_inner(0) < 0)
            break;
        const timespec pause{0, kMillisecond};
        if (inner_busy())
            nanosleep(&pause, nullptr);
    }
    instance_->inner().ops.lane_close(inner_);
}

bool Lane::inner_busy() const {
    return std::ranges::any_of(operations_,
                               [](const auto &entry) { return entry.second.state == Operation::State::inner; });
}

// Always draws the same number of values, so that one option's probability does not shift the outcome of another.
Fate Lane::draw() {
    const Options &options = instance_->options();
    Fate fate;
    fate.fail = random_.chance(options.fail);
    fate.never = random_.chance(options.never) && !fate.fail;
    const bool coin = random_.chance(0.5);
    fate.before = options.hold == Hold::before || (options.hold == Hold::either && coin);
    const bool delayed = random_.chance(options.delayed);
    const uint64_t ms = random_.between(options.delay.least, options.delay.most);
    const uint64_t polls = random_.between(options.polls.least, options.polls.most);
    if (delayed) {
        fate.delay_ns = ms * kMillisecond;
        fate.delay_polls = polls;
    }
    const bool late = random_.chance(options.reorder);
    const uint64_t late_polls = random_.between(1, kMostLatePolls);
    fate.late_polls = late ? late_polls : 0;
    return fate;
}

int Lane::post(Peer *peer, uint32_t kind, const kvf_segment *segments, uint32_t count, uint64_t token,
               uint32_t *accepted) {
    told_.clear();
    *accepted = 0;
    if (peer->closing())
        return fail(KVF_ERR_CANCELLED, "the peer is fenced");
    const Options &options = instance_->options();
    Counters &counters = instance_->counters();
    const bool full = random_.chance(options.full);
    const bool truncate = random_.chance(options.truncate);
    const uint64_t fewer = random_.between(1, std::max<uint32_t>(count, 2) - 1);
    const Fate fate = draw();
    // With nothing in flight there would be no completion to wait for before trying again.
    if (full && !operations_.empty()) {
        counters.add(Count::full);
        return KVF_OK;
    }
    if (truncate && count > 1) {
        counters.add(Count::truncated);
        count = static_cast<uint32_t>(fewer);
    }
    const auto at = operations_.emplace(next_serial_++, Operation()).first;
    Operation &operation = at->second;
    operation.token = token;
    operation.peer = peer;
    operation.kind = kind;
    operation.fate = fate;
    if (fate.holds_before()) {
        try {
            hold(&operation, segments, count);
        } catch (...) {
            operations_.erase(at); // nothing is accepted
            throw;
        }
        *accepted = count;
    } else if (const int rc = post_now(at, segments, count, accepted); rc != KVF_OK || *accepted == 0) {
        operations_.erase(at);
        return rc;
    }
    if (fate.fail)
        counters.add(Count::failed);
    else if (fate.never)
        counters.add(Count::withheld);
    else if (fate.holds_before() || fate.holds_after())
        counters.add(Count::held);
    return KVF_OK;
}

int Lane::post_now(Operations::iterator at, const kvf_segment *segments, uint32_t count, uint32_t *accepted) {
    Operation &operation = at->second;
    const int rc = instance_->inner().ops.post(inner_, operation.peer->inner, operation.kind, segments, count,
                                               at->first, accepted);
    operation.state = Operation::State::inner;
    return rc;
}

void Lane::hold(Operation *operation, const kvf_segment *segments, uint32_t count) {
    // One that fails has no need of its segments.
    if (!operation->fate.fail)
        operation->segments.assign(segments, segments + count);
    const Fate &fate = operation->fate;
    operation->due.at_ns = fate.delay_ns != 0 ? now_ns() + fate.delay_ns : 0;
    operation->due.at_poll = polls_ + fate.delay_polls;
    if (fate.never)
        operation->due.at_ns = Due::kNever;
}

int Lane::poll(kvf_completion *completions, uint32_t capacity) {
    told_.clear();
    ++polls_;
    wake_.drain();
    const uint64_t now = now_ns();
    if (const int rc = drive_inner(now); rc < 0)
        return rc;
    end_fenced();
    release_held(now);
    return static_cast<int>(deliver(completions, capacity, now));
}

int Lane::drive_inner(uint64_t now) {
    kvf_completion done[kBatch];
    const int count = instance_->inner().ops.poll(inner_, done, kBatch);
    for (int i = 0; i < count; ++i)
        if (const auto at = operations_.find(done[i].token); at != operations_.end())
            at->second.inner_done(done[i], now, polls_);
    return count;
}

void Lane::end_fenced() {
    for (auto &[serial, operation] : operations_)
        if (operation.peer->fenced())
            operation.end_early();
}

void Lane::release_held(uint64_t now) {
    for (auto &[serial, operation] : operations_) {
        if (operation.state != Operation::State::held || !operation.due.reached(now, polls_))
            continue;
        if (operation.fate.fail)
            operation.end(KVF_ERR_TRANSPORT, "failed by the fault plugin", now, polls_);
        else if (operation.peer->closing())
            operation.end(KVF_ERR_CANCELLED, "the peer was fenced", now, polls_);
        else
            post_rest(serial, &operation, now);
    }
}

// The host was told that all segments were accepted; the inner transport may take them in several posts, one after the
// other.
void Lane::post_rest(uint64_t serial, Operation *operation, uint64_t now) {
    uint32_t accepted = 0;
    const size_t left = operation->segments.size() - operation->next;
    const int rc = instance_->inner().ops.post(inner_, operation->peer->inner, operation->kind,
                                               operation->segments.data() + operation->next,
                                               static_cast<uint32_t>(left), serial, &accepted);
    if (rc != KVF_OK && operation->peer->closing()) {
        operation->end(KVF_ERR_CANCELLED, "the peer was fenced", now, polls_);
    } else if (rc != KVF_OK) {
        operation->end(rc, "refused by the transport below when it was passed on", now, polls_);
    } else if (accepted > 0) {
        operation->posted = accepted;
        operation->state = Operation::State::inner;
    }
}

uint32_t Lane::deliver(kvf_completion *completions, uint32_t capacity, uint64_t now) {
    uint32_t count = 0;
    for (auto at = operations_.begin(); at != operations_.end() && count < capacity;) {
        const auto here = at++;
        if (here->second.state != Operation::State::ended || !here->second.due.reached(now, polls_))
            continue;
        const Operation &operation = told_.insert(operations_.extract(here)).position->second;
        kvf_completion &completion = completions[count++];
        completion = {};
        completion.token = operation.token;
        completion.status = operation.status;
        completion.bytes = operation.bytes;
        completion.message = operation.message.empty() ? nullptr : operation.message.c_str();
    }
    return count;
}

uint64_t Lane::next_due(uint64_t now) const {
    uint64_t next = Due::kNever;
    for (const auto &[serial, operation] : operations_) {
        if (operation.state == Operation::State::inner)
            continue;
        const bool fenced = !operation.early && operation.peer->fenced();
        // Counts of polls go on only by polling, and an operation that found the inner lane full must try again.
        if (fenced || (operation.due.at_ns <= now))
            return 0;
        next = std::min(next, operation.due.at_ns);
    }
    return next;
}

int Lane::wait(uint32_t timeout_ms) {
    told_.clear();
    const Inner &inner = instance_->inner();
    if (inner.ops.wait == nullptr)
        return fail(KVF_ERR_UNSUPPORTED, "the transport below can't wait");
    constexpr uint64_t kFenceLatencyMs = 10; // a fence does not end the inner wait
    const uint64_t now = now_ns();
    const uint64_t due = next_due(now);
    if (due == 0)
        return KVF_OK;
    uint64_t ms = timeout_ms;
    if (due != Due::kNever)
        ms = std::min(ms, (due - now) / kMillisecond + 1);
    if (!operations_.empty())
        ms = std::min(ms, kFenceLatencyMs);
    return inner.ops.wait(inner_, static_cast<uint32_t>(ms));
}

int Lane::event_fd() {
    if (wake_.fd() < 0)
        return fail(KVF_ERR_UNSUPPORTED, "the transport below has no descriptor");
    return wake_.fd();
}

int Lane::arm() {
    told_.clear();
    const uint64_t due = next_due(now_ns());
    if (due == 0)
        return KVF_ERR_BUSY;
    wake_.at(due);
    return instance_->inner().ops.arm != nullptr ? instance_->inner().ops.arm(inner_) : KVF_OK;
}

int Lane::cancel(uint64_t token) {
    told_.clear();
    const Inner &inner = instance_->inner();
    const auto at = std::ranges::find_if(
        operations_, [&](const auto &entry) { return entry.second.token == token && !entry.second.early; });
    if (at == operations_.end())
        return fail(KVF_ERR_INVALID, "no operation in flight has token %llu", static_cast<unsigned long long>(token));
    Operation &operation = at->second;
    if (operation.state != Operation::State::inner) {
        operation.end_early();
        return KVF_OK;
    }
    if (inner.ops.cancel == nullptr)
        return fail(KVF_ERR_UNSUPPORTED, "the transport below can't cancel");
    operation.end_early();
    return inner.ops.cancel(inner_, at->first);
}

} // namespace fault
