// The thread around a Shard: its inbox, its clock, its sleep. It carries the shard's output to the control thread, to
// waiters and to the event queue.
#pragma once

#include "base/mailbox.h"
#include "engine/event_queue.h"
#include "engine/fences.h"
#include "room/shard.h"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

struct pollfd;

namespace kvf {

class ShardThread {
  public:
    using ToControlFn = std::function<void(ToControl &&)>;

    // inbox: how many calls of callers may be queued.
    static Status create(const ShardConfig &config, uint32_t inbox, RoomTable &table, EventQueue &events,
                         ToControlFn to_control, std::unique_ptr<ShardThread> *out);
    // Stops.
    ~ShardThread();
    ShardThread(const ShardThread &) = delete;
    ShardThread &operator=(const ShardThread &) = delete;

    void start();
    // Ends the thread, which handles what is in the inbox before. The shard and its lanes live until the destructor.
    void stop();

    // Any thread. A place in the inbox for one of the calls that are limited: false when it is full. It is given back
    // when the shard has handled the message, or by give_back().
    bool reserve();
    void give_back() { queued_.fetch_sub(1, std::memory_order_relaxed); }

    // Any thread. Messages of the kinds that reserve() is for have a place.
    using Letter = Mailbox<ToShard>::Letter;
    void push(Letter letter) noexcept;
    void push(ToShard &&message) { push(Mailbox<ToShard>::write(std::move(message))); }

    const ShardCounters &counters() const { return shard_.counters(); }

  private:
    ShardThread(const ShardConfig &config, uint32_t inbox, RoomTable &table, EventQueue &events, ToControlFn to_control,
                OwnedFd wake, std::unique_ptr<Fences> fences);

    void run();
    void turn();
    bool drain();
    bool flush();
    bool tell_control();
    void change_fences();
    void look_at_fences();
    bool linger() const;
    void sleep();

    const uint32_t inbox_;
    RoomTable &table_;
    EventQueue &events_;
    const ToControlFn to_control_;
    const OwnedFd wake_; // an eventfd
    const std::unique_ptr<Fences> fences_;
    Shard shard_;
    std::vector<int> descriptors_; // of lanes, while asleep, as is the next
    std::vector<pollfd> polled_;
    std::thread thread_;
    std::atomic<bool> stop_{false};
    alignas(64) std::atomic<uint32_t> queued_{0};
    alignas(64) Mailbox<ToShard> mailbox_;
};

} // namespace kvf
