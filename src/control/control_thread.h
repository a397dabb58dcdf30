// The control thread of an engine: one thread with all sockets and timers, a mailbox for the shards, and on it a
// Control, which decides. Shards and the engine see no more of the control plane than this.
#pragma once

#include "base/status.h"
#include "control/control_config.h"
#include "room/messages.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kvf {

class Control;

class ControlThread {
  public:
    // Gets one message of the control thread for that shard; called on the control thread, must not wait.
    using ToShardFn = std::function<void(uint32_t shard, ToShard &&message)>;
    using CounterFn = std::function<void(const char *name, uint64_t value)>;

    // Binds the listening address (KVF_ERR_ADDRESS_IN_USE, KVF_ERR_INVALID, KVF_ERR_SYSTEM) and starts the thread.
    static Status start(const ControlConfig &config, ToShardFn to_shard, std::unique_ptr<ControlThread> *out);

    // Stops.
    ~ControlThread();
    ControlThread(const ControlThread &) = delete;
    ControlThread &operator=(const ControlThread &) = delete;

    // Where peers dial, "tcp://127.0.0.1:40123"; "" when this engine does not listen.
    const std::string &address() const;

    // Any thread; never waits. Dropped once the thread has stopped.
    void push(ToControl &&message);

    // Runs fn on the control thread, after what this thread pushed and posted before. call waits until it has run and
    // is not for the control thread itself; both give false when the thread has stopped and fn will not run. fn must
    // not throw.
    bool call(const std::function<void(Control &)> &fn);
    bool post(std::function<void(Control &)> fn);

    // Ends the thread: what was pushed before is handled, what is to be sent gets up to flush_ms to leave, connections
    // are closed. Peers whose Links are still held are ended by whoever drops the last reference. Idempotent; not for
    // the control thread. to_shard is not called any more when it has returned.
    void stop(uint32_t flush_ms = 500);

    // In a child after fork, where the thread is not: closes the child's copies of the listener and of the connections,
    // and is of no use after that. They stay the parent's.
    void forget_in_child();

    // The counters of the control plane; names are static, gauges begin with "open_". Any thread.
    void for_each_counter(const CounterFn &fn) const;

  private:
    class Loop;
    explicit ControlThread(std::unique_ptr<Loop> loop);

    std::unique_ptr<Loop> loop_;
};

} // namespace kvf
