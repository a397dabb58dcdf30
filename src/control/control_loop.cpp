// The loop itself, and what Control wants done of sockets, shards and the bootstrap client.
#include "control/control_loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace kvf {
namespace {

constexpr size_t kMostUnsent = size_t{512} << 20; // bytes that all peers together leave unread

// Runs fn; what it throws (no memory, most likely) ends there.
template <typename Fn>
void contained(Fn &&fn) noexcept {
    try {
        fn();
    } catch (const std::exception &error) {
        log(KVF_LOG_ERROR, "control thread: %s", error.what());
    }
}

} // namespace

ControlThread::Loop::Loop(const ControlConfig &config, ToShardFn to_shard, Listener listener)
    : to_shard_(std::move(to_shard)),
      listener_(std::move(listener)),
      address_(listener_.fd() >= 0 ? listener_.reachable(config.bootstrap) : ""),
      work_(io_.get_executor()),
      timer_(io_),
      accept_pause_(io_),
      acceptor_(io_),
      bootstrap_(io_),
      control_(config, address_, *this, monotonic_ns()) {
    if (listener_.fd() >= 0)
        descriptors_.add(listener_.fd());
}

ControlThread::Loop::~Loop() {
    if (acceptor_.is_open())
        acceptor_.release();
}

void ControlThread::Loop::start() {
    {
        const BlockedSignals blocked;
        thread_ = std::thread([this] { run(); });
    }
    pthread_setname_np(thread_.native_handle(), "kvf-control");
}

// ----------------------------------------------------------------------------------------------------------- the loop

void ControlThread::Loop::run() {
    if (listener_.fd() >= 0)
        contained([this] { acceptor_.assign(listener_.fd()); });
    while (!stopping_ || (!lingering_.empty() && monotonic_ns() < stop_by_))
        contained([this] { turn(); });
    {
        const std::lock_guard<std::mutex> guard(gate_);
        closed_ = true;
    }
    drain(); // what was posted before
    bootstrap_.cancel_all();
    for (auto &[id, socket] : lingering_)
        socket->drop();
    lingering_.clear();
    control_.end();
}

void ControlThread::Loop::turn() {
    control_.tick(monotonic_ns());
    drain();
    flush();
    if (stopping_ && lingering_.empty())
        return;
    wait_for_peers();
    const uint64_t until = monotonic_ns() + kLingerNs;
    do {
        if (io_.poll() > 0 || !mailbox_.empty())
            return;
        sched_yield();
    } while (monotonic_ns() < until);
    if (!mailbox_.prepare_sleep())
        return;
    set_timer();
    io_.run_one();
}

void ControlThread::Loop::drain() {
    auto letters = mailbox_.take();
    while (Letter *letter = letters.next())
        contained([&] {
            if (auto *message = std::get_if<ToControl>(letter))
                control_.handle(std::move(*message));
            else
                std::get<std::function<void()>> (*letter)();
        });
}

void ControlThread::Loop::flush() {
    while (!unflushed_.empty() || !overfull_.empty()) { // the end of one may be told to others
        for (const uint64_t id : std::exchange(unflushed_, {})) {
            const auto it = sockets_.find(id);
            if (it != sockets_.end())
                std::shared_ptr(it->second)->flush(); // which may end it
        }
        for (const uint64_t id : std::exchange(overfull_, {}))
            socket_closed(id, {KVF_ERR_PEER_SILENT, "the peer does not read what is sent to it"});
    }
}

void ControlThread::Loop::set_timer() {
    const uint64_t due = std::min(control_.next_deadline(), stop_by_);
    if (due >= timer_at_)
        return; // one that goes off early does no harm
    timer_at_ = due;
    timer_.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due)));
    timer_.async_wait([this](const auto &error) {
        if (!error)
            timer_at_ = kNever;
    });
}

void ControlThread::Loop::begin_to_stop() {
    linger_ms_ = flush_ms_.load();
    control_.shutdown({KVF_ERR_CLOSED, -1, ""});
    if (acceptor_.is_open())
        acceptor_.release();
    if (listener_.fd() >= 0)
        descriptors_.remove(listener_.fd());
    listener_ = {};
    stopping_ = true;
    stop_by_ = monotonic_ns() + linger_ms_ * kNanosPerMilli;
}

// ----------------------------------------------------------------------------------------------- from other threads

void ControlThread::Loop::wake() {
    boost::asio::post(io_, [] {});
}

void ControlThread::Loop::push(ToControl &&message) {
    if (mailbox_.push(Letter(std::move(message))))
        wake();
}

bool ControlThread::Loop::post(std::function<void()> fn) {
    const std::lock_guard<std::mutex> guard(gate_);
    if (closed_)
        return false;
    if (mailbox_.push(Letter(std::move(fn))))
        wake();
    return true;
}

void ControlThread::Loop::run_on_control(std::function<void()> fn) {
    (void)post(std::move(fn));
}

void ControlThread::Loop::stop(uint32_t flush_ms) {
    flush_ms_.store(flush_ms);
    (void)post([this] { begin_to_stop(); });
    const std::lock_guard<std::mutex> guard(joining_);
    if (thread_.joinable())
        thread_.join();
}

// -------------------------------------------------------------------------------------------------------- the sockets

void ControlThread::Loop::adopt(Socket::Stream stream, uint64_t id) {
    const auto socket = std::make_shared<Socket>(std::move(stream), id, *this, unsent_, descriptors_);
    sockets_.emplace(id, socket);
    socket->start();
}

void ControlThread::Loop::send(uint64_t connection, std::span<const uint8_t> frame) {
    const auto it = sockets_.find(connection);
    if (it == sockets_.end())
        return;
    if (!it->second->queue(frame))
        overfull_.push_back(connection);
    else if (unflushed_.empty() || unflushed_.back() != connection)
        unflushed_.push_back(connection);
    if (unsent_ <= kMostUnsent)
        return;
    const auto largest = std::max_element(sockets_.begin(), sockets_.end(), [](const auto &a, const auto &b) {
        return a.second->unsent() < b.second->unsent();
    });
    overfull_.push_back(largest->first);
}

void ControlThread::Loop::close(uint64_t connection) {
    cancel_dial(connection);
    const auto it = sockets_.find(connection);
    if (it == sockets_.end())
        return;
    const std::shared_ptr<Socket> socket = std::move(it->second);
    sockets_.erase(it);
    lingering_.emplace(connection, socket);
    socket->linger(linger_ms_);
}

void ControlThread::Loop::socket_received(uint64_t id, std::span<const uint8_t> bytes) {
    control_.tick(monotonic_ns());
    control_.received(id, bytes);
}

void ControlThread::Loop::socket_closed(uint64_t id, const Status &why) {
    const auto it = sockets_.find(id);
    if (it == sockets_.end())
        return;
    it->second->drop();
    sockets_.erase(it);
    control_.tick(monotonic_ns());
    control_.closed(id, why);
}

void ControlThread::Loop::socket_gone(uint64_t id) {
    lingering_.erase(id);
}

// ------------------------------------------------------------------------------------------- shards and bootstrap

void ControlThread::Loop::to_shard(uint32_t shard, ToShard &&message) {
    to_shard_(shard, std::move(message));
}

void ControlThread::Loop::ask_topology(uint64_t request, const std::string &server) {
    bootstrap_.topology(server, [this, request](const Status &status, const Topology &topology) {
        control_.tick(monotonic_ns());
        control_.topology_came(request, status, topology);
    });
}

void ControlThread::Loop::ask_rank(uint64_t request, const std::string &server, const RankPlace &place) {
    bootstrap_.rank(server, place, [this, request](const Status &status, const RankAddress &address) {
        control_.tick(monotonic_ns());
        control_.rank_came(request, status, address);
    });
}

void ControlThread::Loop::ask_dp_rank(uint64_t request, const std::string &server, uint64_t room_id) {
    bootstrap_.dp_rank_of_room(server, room_id, [this, request](const Status &status, std::optional<uint32_t> rank) {
        control_.tick(monotonic_ns());
        control_.dp_rank_came(request, status, rank);
    });
}

void ControlThread::Loop::register_rank(uint64_t request, const std::string &server, const RankRecord &record) {
    bootstrap_.register_rank(server, record, [this, request](const Status &status) {
        control_.tick(monotonic_ns());
        control_.registered(request, status);
    });
}

} // namespace kvf
