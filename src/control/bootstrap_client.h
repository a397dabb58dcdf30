// The bootstrap server's client, on the engine's control thread: registers this engine, finds the ranks of others.
#pragma once

#include "base/status.h"
#include "control/bootstrap_types.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace boost::asio {
class io_context;
} // namespace boost::asio

namespace kvf {

// Every function is to be called on the thread that runs the io_context, or before it runs. None blocks; a host name
// that is not a number is resolved on a thread of Asio's, which the end of the io_context waits for.
//
// A callback runs once, on the io_context and never from within the call. It may call the client, cancel_all and the
// destructor included. Its status, when the call did not work:
//   KVF_ERR_INVALID    the address does not parse
//   KVF_ERR_AGAIN      not all ranks have registered
//   KVF_ERR_BOOTSTRAP  the server is not there, did not answer in time, does not know the rank, or refused
//   KVF_ERR_PROTOCOL   what answers there is no bootstrap server
// Whether and when to try again is the caller's to say.
class BootstrapClient {
  public:
    using Registered = std::function<void(const Status &)>;
    using GotTopology = std::function<void(const Status &, const Topology &)>;
    using GotRank = std::function<void(const Status &, const RankAddress &)>;
    using GotDpRank = std::function<void(const Status &, std::optional<uint32_t>)>;

    static constexpr std::chrono::milliseconds kDeadline{5000};

    // The io_context must outlive the client. deadline is for one request, from the call to the reply.
    explicit BootstrapClient(boost::asio::io_context &io, std::chrono::milliseconds deadline = kDeadline);
    ~BootstrapClient();
    BootstrapClient(const BootstrapClient &) = delete;
    BootstrapClient &operator=(const BootstrapClient &) = delete;

    // address is "host:port" of the server throughout.
    void register_rank(const std::string &address, const RankRecord &record, Registered done);
    void topology(const std::string &address, GotTopology done);
    void rank(const std::string &address, const RankPlace &place, GotRank done);

    // Tells the server which dp rank prefills the room.
    void register_dp_rank(const std::string &address, uint64_t room_id, uint32_t dp_rank, Registered done);

    // None when the server was not told yet. Rooms that are asked for while a question is under way are asked for
    // together, so the answer may take two deadlines.
    void dp_rank_of_room(const std::string &address, uint64_t room_id, GotDpRank done);

    // No callback runs from here on for what was called before. The destructor does the same.
    void cancel_all();

  private:
    class Calls;

    std::shared_ptr<Calls> calls_;
};

} // namespace kvf
