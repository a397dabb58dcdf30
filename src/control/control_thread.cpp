#include "control/control_thread.h"

#include "control/control_loop.h"

#include <future>
#include <system_error>
#include <utility>

namespace kvf {

Status ControlThread::start(const ControlConfig &config, ToShardFn to_shard, std::unique_ptr<ControlThread> *out) {
    Listener listener;
    if (!config.listen.empty())
        if (Status status = Listener::open(config.listen, config.trust_network, &listener); !status.ok())
            return status;
    if (!config.bootstrap.empty() && listener.is_unix())
        return fail(KVF_ERR_INVALID,
                    "%s can't be registered with the bootstrap server %s, which takes tcp:// addresses",
                    config.listen.c_str(), config.bootstrap.c_str());
    try {
        auto loop = std::make_unique<Loop>(config, std::move(to_shard), std::move(listener));
        loop->start();
        out->reset(new ControlThread(std::move(loop)));
    } catch (const std::system_error &error) {
        return fail(KVF_ERR_SYSTEM, "the control thread: %s", error.what());
    }
    return {};
}

ControlThread::ControlThread(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

ControlThread::~ControlThread() {
    stop();
}

const std::string &ControlThread::address() const {
    return loop_->address();
}

void ControlThread::push(ToControl &&message) {
    loop_->push(std::move(message));
}

bool ControlThread::post(std::function<void(Control &)> fn) {
    return loop_->post([loop = loop_.get(), fn = std::move(fn)] { fn(loop->control()); });
}

bool ControlThread::call(const std::function<void(Control &)> &fn) {
    // Shared: the waiter may be gone before the other thread has left set_value.
    const auto ran = std::make_shared<std::promise<void>>();
    const bool will_run = loop_->post([loop = loop_.get(), &fn, ran] {
        fn(loop->control());
        ran->set_value();
    });
    if (will_run)
        ran->get_future().wait();
    return will_run;
}

void ControlThread::stop(uint32_t flush_ms) {
    loop_->stop(flush_ms);
}

void ControlThread::forget_in_child() {
    loop_->forget_in_child();
}

void ControlThread::for_each_counter(const CounterFn &fn) const {
    loop_->control().counters().for_each(fn);
}

} // namespace kvf
