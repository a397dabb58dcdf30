// What the control plane wants done: sockets, bootstrap requests, messages to shards. A thread with sockets does it, or
// a simulated network. None of these calls waits, and none calls back into Control before it has returned.
#pragma once

#include "base/clock.h"
#include "control/bootstrap_types.h"
#include "room/messages.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace kvf {

constexpr uint64_t kDialDeadline = 10'000 * kNanosPerMilli;

class ControlPort {
  public:
    virtual ~ControlPort() = default;

    // Connects to "tcp://host:port" or "unix:///path": Control::connected or dial_failed follows. What takes longer
    // than kDialDeadline is closed by Control.
    virtual void dial(uint64_t connection, const std::string &address) = 0;
    // The frame is copied. Frames of a connection arrive in order or not at all.
    virtual void send(uint64_t connection, std::span<const uint8_t> frame) = 0;
    // Ends a connection, or the dialing of one, after what was sent before. Nothing more is heard of it.
    virtual void close(uint64_t connection) = 0;

    virtual void to_shard(uint32_t shard, ToShard &&message) = 0;

    // Requests to the bootstrap server at "host:port". Each is answered once, by Control's function of that name.
    virtual void ask_topology(uint64_t request, const std::string &server) = 0;
    virtual void ask_rank(uint64_t request, const std::string &server, const RankPlace &place) = 0;
    virtual void ask_dp_rank(uint64_t request, const std::string &server, uint64_t room_id) = 0;
    virtual void register_rank(uint64_t request, const std::string &server, const RankRecord &record) = 0;

    // Runs fn on the control thread, later. Any thread.
    virtual void run_on_control(std::function<void()> fn) = 0;
};

} // namespace kvf
