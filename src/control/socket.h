// One connected stream socket on the control thread: reads as bytes come, gathers what is to be sent in a turn into one
// write, and at its end lets that leave. Asio's only here, in socket.cpp and in the loop.
#pragma once

#include "base/status.h"
#include "control/descriptors.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kvf {

class Socket : public std::enable_shared_from_this<Socket> {
  public:
    using Stream = boost::asio::generic::stream_protocol::socket;

    class Events {
      public:
        virtual ~Events() = default;
        virtual void socket_received(uint64_t id, std::span<const uint8_t> bytes) = 0;
        // Nothing more comes; the socket is to be dropped.
        virtual void socket_closed(uint64_t id, const Status &why) = 0;
        // After linger(): it is closed.
        virtual void socket_gone(uint64_t id) = 0;
    };

    // events outlives the io_context's handlers.
    // unsent is the sum of what sockets have queued and not sent. The stream is among the descriptors until it is
    // closed.
    Socket(Stream stream, uint64_t id, Events &events, size_t &unsent, Descriptors &descriptors);

    void start();

    // For the next flush. False when the peer has left too much unread.
    bool queue(std::span<const uint8_t> bytes);
    void flush();
    size_t unsent() const { return out_.size() - out_at_; }

    // Sends what is queued, says that nothing follows, waits for the peer to close too, at most for `ms`. What still
    // comes is not looked at.
    void linger(uint32_t ms);
    // Closes it now. No event follows.
    void drop();

  private:
    void read();
    void on_read(const boost::system::error_code &error, size_t size);
    void write_when_ready();
    void failed(const boost::system::error_code &error);
    void gone();

    static constexpr size_t kReadSize = 64u << 10;

    Stream stream_;
    const uint64_t id_;
    Events *events_; // null once dropped
    boost::asio::steady_timer timer_;
    bool waiting_ = false; // for room in the socket's buffer
    bool lingering_ = false;
    std::vector<uint8_t> out_;
    size_t out_at_ = 0; // what of out_ is written
    size_t &unsent_;
    Descriptors &descriptors_;
    alignas(8) std::array<uint8_t, kReadSize> in_;
};

} // namespace kvf
