#include "engine/shard_thread.h"

#include "base/clock.h"
#include "base/log.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

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
    const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0)
        return fail_system(errno, "eventfd for a shard");
    const int fences = epoll_create1(EPOLL_CLOEXEC);
    if (fences < 0) {
        Status failed = fail_system(errno, "epoll for a shard");
        close(wake);
        return failed;
    }
    out->reset(new ShardThread(config, inbox, table, events, std::move(to_control), wake, fences));
    return {};
}

ShardThread::ShardThread(const ShardConfig &config, uint32_t inbox, RoomTable &table, EventQueue &events,
                         ToControlFn to_control, int wake, int fences)
    : inbox_(inbox),
      table_(table),
      events_(events),
      to_control_(std::move(to_control)),
      wake_(wake),
      fences_(fences),
      shard_(config, table) {}

ShardThread::~ShardThread() {
    stop();
}

void ShardThread::start() {
    // Signals are the application's business.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
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

void ShardThread::push(ToShard &&message) {
    if (mailbox_.push(std::move(message)))
        (void)eventfd_write(wake_.get(), 1);
}

void ShardThread::run() {
    while (!stop_.load(std::memory_order_acquire)) {
        const bool handled = drain();
        const bool more = shard_.advance(monotonic_ns());
        flush();
        if (const auto ended = shard_.take_ended())
            ended->add({});
        if (!handled && !more && !linger())
            sleep();
    }
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

void ShardThread::flush() {
    ShardOutput &output = shard_.output();
    for (ToControl &message : output.control)
        to_control_(std::move(message));
    output.control.clear();
    for (FenceWatch &change : output.fences)
        watch(std::move(change));
    output.fences.clear();
    for (const uint32_t slot : output.changed) {
        table_.wake(slot);
        events_.push(slot);
    }
    output.changed.clear();
}

void ShardThread::watch(FenceWatch &&watch) {
    if (watch.done.get() >= 0) {
        // The descriptor is a duplicate of the caller's, so closing it alone would leave it in the epoll.
        epoll_ctl(fences_.get(), EPOLL_CTL_DEL, watch.done.get(), nullptr);
        return;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = watch.room.value;
    if (epoll_ctl(fences_.get(), EPOLL_CTL_ADD, watch.fd, &event) == 0)
        return;
    AbortRoom abort;
    abort.room = watch.room;
    abort.reason = fail_system(errno, text("watching the fence, descriptor %d", watch.fd)).sentence();
    push(std::move(abort));
}

void ShardThread::take_fired_fences() {
    epoll_event fired[64];
    const int count = epoll_wait(fences_.get(), fired, 64, 0);
    const uint64_t now = monotonic_ns();
    for (int i = 0; i < count; ++i)
        shard_.fence_fired({fired[i].data.u64}, now);
    if (count > 0)
        flush();
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

    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}, {fences_.get(), POLLIN, 0}};
    for (const int descriptor : descriptors_)
        polled.push_back({descriptor, POLLIN, 0});
    timespec time{};
    if (until != kNever) {
        const uint64_t length = until > now ? until - now : 0;
        time.tv_sec = static_cast<time_t>(length / 1'000'000'000);
        time.tv_nsec = static_cast<long>(length % 1'000'000'000);
    }
    if (ppoll(polled.data(), polled.size(), until == kNever ? nullptr : &time, nullptr) <= 0)
        return;
    if (polled[0].revents != 0) {
        eventfd_t value = 0;
        (void)eventfd_read(wake_.get(), &value);
    }
    if (polled[1].revents != 0)
        take_fired_fences();
}

} // namespace kvf
