// The control thread's inside: its io_context, its mailbox, its sockets, and Control between them.
#pragma once

#include "base/mailbox.h"
#include "control/bootstrap_client.h"
#include "control/control.h"
#include "control/control_thread.h"
#include "control/listener.h"
#include "control/socket.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

namespace kvf {

class ControlThread::Loop final : public ControlPort, public Socket::Events {
  public:
    Loop(const ControlConfig &config, ToShardFn to_shard, Listener listener);
    ~Loop() override;

    void start();
    const std::string &address() const { return address_; }
    void push(ToControl &&message);
    bool post(std::function<void()> fn);
    void stop(uint32_t flush_ms);
    Control &control() { return control_; }
    void forget_in_child() { descriptors_.close_all(); }

    // ControlPort
    void dial(uint64_t connection, const std::string &address) override;
    void send(uint64_t connection, std::span<const uint8_t> frame) override;
    void close(uint64_t connection) override;
    void to_shard(uint32_t shard, ToShard &&message) override;
    void ask_topology(uint64_t request, const std::string &server) override;
    void ask_rank(uint64_t request, const std::string &server, const RankPlace &place) override;
    void ask_dp_rank(uint64_t request, const std::string &server, uint64_t room_id) override;
    void register_rank(uint64_t request, const std::string &server, const RankRecord &record) override;
    void run_on_control(std::function<void()> fn) override;

    // Socket::Events
    void socket_received(uint64_t id, std::span<const uint8_t> bytes) override;
    void socket_closed(uint64_t id, const Status &why) override;
    void socket_gone(uint64_t id) override;

  private:
    using Letter = std::variant<ToControl, std::function<void()>>;
    using Endpoint = Socket::Stream::endpoint_type;
    struct Dialing; // in control_dial.cpp

    void run();
    void turn();
    void drain();
    void flush();
    void set_timer();
    void begin_to_stop();
    void wake();
    void adopt(Socket::Stream stream, uint64_t id);

    void wait_for_peers();
    void accept_some();
    void accept(int fd, const void *sockaddr);

    void resolve(const std::shared_ptr<Dialing> &dialing, const std::string &address);
    void connect(const std::shared_ptr<Dialing> &dialing);
    void dial_ended(uint64_t connection, const Status &status);
    void cancel_dial(uint64_t connection);

    const ToShardFn to_shard_;
    Listener listener_; // empty when there is none, or it has ended
    const std::string address_;

    Mailbox<Letter> mailbox_;
    std::mutex gate_;     // around closed_ and every post that its caller relies on
    bool closed_ = false; // what is posted now would not run

    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    boost::asio::steady_timer timer_;
    uint64_t timer_at_ = kNever; // when it goes off
    boost::asio::steady_timer accept_pause_;
    boost::asio::posix::stream_descriptor acceptor_; // the listener's, which closes it
    bool accepting_ = false;                         // accept_some() will be called
    BootstrapClient bootstrap_;

    Descriptors descriptors_;
    size_t unsent_ = 0; // bytes, of all sockets
    std::unordered_map<uint64_t, std::shared_ptr<Socket>> sockets_;
    std::unordered_map<uint64_t, std::shared_ptr<Socket>> lingering_;
    std::unordered_map<uint64_t, std::shared_ptr<Dialing>> dialing_;
    std::vector<uint64_t> unflushed_; // sockets with something queued in this turn
    std::vector<uint64_t> overfull_;

    std::atomic<uint32_t> flush_ms_{0}; // as given to stop()
    uint32_t linger_ms_ = 500;
    bool stopping_ = false;
    uint64_t stop_by_ = kNever;

    Control control_;
    std::mutex joining_;
    std::thread thread_;
};

} // namespace kvf
