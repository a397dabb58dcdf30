#include "engine/shard_thread.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace kvf {
namespace {

// How long a lane without a descriptor is left alone while operations are in flight on it.
constexpr uint64_t kPollPauseNs = 20'000;

bool is_limited(const ToShard &message) {
    return std::holds_alternative<OpenSender>(message) || std::holds_alternative<OpenReceiver>(message) ||
           std::holds_alternative<Accept>(message) || std::holds_alternative<SendChunk>(message);
}

} // namespace

Status ShardThread::create(const ShardConfig &config, uint32_t inbox, RoomTable &table, EventQueue &events,
                           ToControlFn to_control, std::unique_ptr<ShardThread> *out) {
    OwnedFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake.get() < 0)
        return fail_system(errno, "eventfd for a shard");
    std::unique_ptr<Fences> fences;
    Status made = Fences::create(&fences);
    if (!made.ok())
        return made;
    out->reset(
        new ShardThread(config, inbox, table, events, std::move(to_control), std::move(wake), std::move(fences)));
    return {};
}

ShardThread::ShardThread(const ShardConfig &config, uint32_t inbox, RoomTable &table, EventQueue &events,
                         ToControlFn to_control, OwnedFd wake, std::unique_ptr<Fences> fences)
    : inbox_(inbox),
      table_(table),
      events_(events),
      to_control_(std::move(to_control)),
      wake_(std::move(wake)),
      fences_(std::move(fences)),
      shard_(config, table) {}

ShardThread::~ShardThread() {
    stop();
}

void ShardThread::start() {
    {
        const BlockedSignals blocked;
        thread_ = std::thread([this] { run(); });
    }
    pthread_setname_np(thread_.native_handle(), "kvf-shard");
}

void ShardThread::stop() {
    if (!thread_.joinable())
        return;
    stop_.store(true, std::memory_order_release);
    (void)eventfd_write(wake_.get(), 1);
    thread_.join();
}

bool ShardThread::reserve() {
    if (queued_.fetch_add(1, std::memory_order_relaxed) < inbox_)
        return true;
    give_back();
    return false;
}

void ShardThread::push(Letter letter) noexcept {
    if (mailbox_.push(std::move(letter)))
        (void)eventfd_write(wake_.get(), 1);
}

void ShardThread::run() {
    while (!stop_.load(std::memory_order_acquire)) {
        try {
            turn();
        } catch (const std::exception &error) {
            log(KVF_LOG_ERROR, "a shard's thread: %s", error.what()); // the turn only: the shard contains its own
        }
    }
    // What was pushed before the end is about rooms whose callers want to know.
    drain();
    shard_.advance(monotonic_ns());
    (void)flush();
}

void ShardThread::turn() {
    const bool handled = drain();
    if (!fences_->empty())
        look_at_fences();
    const bool more = shard_.advance(monotonic_ns());
    const bool flushed = flush();
    if (const auto ended = shard_.take_ended())
        ended->add({});
    if (!handled && !more && flushed && !linger())
        sleep();
}

bool ShardThread::drain() {
    auto batch = mailbox_.take();
    ToShard *message = batch.next();
    if (!message)
        return false;
    const uint64_t now = monotonic_ns();
    uint32_t limited = 0;
    for (; message; message = batch.next()) {
        limited += is_limited(*message) ? 1 : 0;
        shard_.handle(std::move(*message), now);
    }
    queued_.fetch_sub(limited, std::memory_order_relaxed);
    return true;
}

// False when something is left for the next turn.
bool ShardThread::flush() {
    change_fences();
    const bool told = tell_control();
    ShardOutput &output = shard_.output();
    for (const uint32_t slot : output.changed) {
        table_.wake(slot);
        events_.push(slot);
    }
    output.changed.clear();
    return told;
}

bool ShardThread::tell_control() {
    std::vector<ToControl> &messages = shard_.output().control;
    size_t told = 0;
    try {
        for (; told < messages.size(); ++told)
            to_control_(std::move(messages[told]));
    } catch (const std::bad_alloc &) {
        // It was not taken; the order is kept.
        messages.erase(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(told));
        return false;
    }
    messages.clear();
    return true;
}

void ShardThread::change_fences() {
    std::vector<FenceWatch> &changes = shard_.output().fences;
    // A fence that can't be watched fails its room, which then stops watching it.
    for (size_t i = 0; i < changes.size(); ++i) {
        if (changes[i].done.get() >= 0) {
            fences_->forget(changes[i].done.get());
            continue;
        }
        const RoomHandle room = changes[i].room;
        const Status watched = fences_->watch(room, changes[i].fd);
        if (!watched.ok())
            shard_.fence_failed(room, watched, monotonic_ns());
    }
    changes.clear();
}

void ShardThread::look_at_fences() {
    const uint64_t now = monotonic_ns();
    fences_->look([&](RoomHandle room, const Status &fired) {
        if (fired.ok())
            shard_.fence_fired(room, now);
        else
            shard_.fence_failed(room, fired, now);
    });
    change_fences();
}

// True when there is more to do.
bool ShardThread::linger() const {
    if (shard_.must_poll())
        return false; // sleep() makes the pauses that a lane needs
    const uint64_t until = monotonic_ns() + kLingerNs;
    do {
        if (!mailbox_.empty())
            return true;
        sched_yield();
    } while (monotonic_ns() < until);
    return false;
}

void ShardThread::sleep() {
    descriptors_.clear();
    if (!shard_.arm_lanes(&descriptors_) || !mailbox_.prepare_sleep())
        return;
    uint64_t until = shard_.next_deadline();
    const uint64_t now = monotonic_ns();
    if (shard_.must_poll())
        until = std::min(until, now + kPollPauseNs);

    polled_.assign({{wake_.get(), POLLIN, 0}, {fences_->descriptor(), POLLIN, 0}});
    for (const int descriptor : descriptors_)
        polled_.push_back({descriptor, POLLIN, 0});
    timespec time{};
    if (until != kNever) {
        const uint64_t length = until > now ? until - now : 0;
        time.tv_sec = static_cast<time_t>(length / 1'000'000'000);
        time.tv_nsec = static_cast<long>(length % 1'000'000'000);
    }
    if (ppoll(polled_.data(), polled_.size(), until == kNever ? nullptr : &time, nullptr) <= 0)
        return;
    if (polled_[0].revents != 0) {
        eventfd_t value = 0;
        (void)eventfd_read(wake_.get(), &value);
    }
}

} // namespace kvf
