// The bootstrap server and its client, told anything. The first byte chooses who: a connection to the server, its
// registry behind the HTTP, the readers of JSON, or the client with a server that answers as the input says.
#include "control/bootstrap_client.h"
#include "control/bootstrap_messages.h"
#include "control/bootstrap_registry.h"
#include "control/bootstrap_session.h"
#include "holds.h"
#include "input.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace {

using namespace kvf;
using boost::asio::ip::tcp;
using boost::system::error_code;
using fuzz::holds;
using fuzz::Input;

constexpr uint32_t kRooms = 8;

bool is_text(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// ------------------------------------------------------------------------------------------------------ a connection

// Everything that comes back has to be replies of HTTP.
void check_replies(std::string_view bytes) {
    namespace http = boost::beast::http;
    while (!bytes.empty()) {
        http::response_parser<http::string_body> parser;
        parser.eager(true);
        error_code error;
        const size_t used = parser.put(boost::asio::buffer(bytes), error);
        holds(!error && parser.is_done(), "a reply is HTTP");
        holds(parser.get().result_int() != 500, "a request does not fail the server");
        bytes.remove_prefix(used);
    }
}

void talk_to_server(std::string_view bytes) {
    std::array<int, 2> pair{};
    holds(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0, "there are sockets");
    holds(::send(pair[0], bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()),
          "an input fits into a socket's buffer");
    ::shutdown(pair[0], SHUT_WR);

    BootstrapRegistry registry(kRooms);
    boost::asio::io_context io(1);
    tcp::socket socket(io);
    socket.assign(tcp::v4(), pair[1]);
    BootstrapLimits limits;
    limits.header_bytes = 512;
    limits.body_bytes = 1024;
    bool open = true;
    serve_bootstrap(std::move(socket), &registry, limits, {nullptr, [&open](void *) { open = false; }});
    io.run();
    holds(!open, "a connection whose peer has hung up is closed");

    std::string replies(1 << 18, '\0');
    const ssize_t size = ::recv(pair[0], replies.data(), replies.size(), 0);
    ::close(pair[0]);
    // The reply to a HEAD looks as if a body followed.
    if (size > 0 && bytes.find("HEAD") == std::string_view::npos)
        check_replies(std::string_view(replies).substr(0, static_cast<size_t>(size)));
}

// ------------------------------------------------------------------------------------------------------- the registry

struct Route {
    const char *method, *target;
};
constexpr Route kRoutes[] = {
    {"PUT", "/route"},
    {"GET", "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"},
    {"GET", "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0"},
    {"POST", "/register_dp_rank"},
    {"POST", "/query_dp_ranks"},
    {"HEAD", "/health"},
};

void check_reply(const BootstrapRegistry::Reply &reply, size_t route) {
    holds(reply.status == 200 || (reply.status >= 400 && reply.status < 500) || reply.status == 503,
          "a request does not fail the server");
    holds(is_text(reply.content_type) && is_text(reply.allow), "no field of a header ends its line");
    if (reply.status != 200) {
        holds(is_text(reply.body), "a refusal is plain text");
    } else if (route == 1) {
        Topology topology;
        holds(read_topology(reply.body, &topology), "the topology told is understood");
    } else if (route == 2) {
        RankAddress address;
        holds(read_rank_address(reply.body, &address), "the address told is understood");
    } else if (route == 4) {
        std::map<uint64_t, uint32_t> ranks;
        holds(read_dp_ranks(reply.body, &ranks), "the dp ranks told are understood");
        holds(ranks.size() <= kRooms, "no more rooms are known than are kept");
    }
}

// Records: [route][length of the body], and for others than those routes [length of the target] and the target.
void ask_registry(Input in) {
    BootstrapRegistry registry(kRooms);
    while (!in.empty()) {
        const size_t which = in.below(std::size(kRoutes) + 2);
        if (which < std::size(kRoutes)) {
            // Bodies may be longer than a byte says.
            const size_t length = in.byte() * size_t{4};
            check_reply(registry.handle(kRoutes[which].method, kRoutes[which].target, in.text(length)), which);
            continue;
        }
        const std::string method = which == std::size(kRoutes) ? "GET" : in.text(in.below(8));
        const std::string target = in.text(in.byte());
        check_reply(registry.handle(method, target, in.text(in.byte())), std::size(kRoutes));
    }
}

// ------------------------------------------------------------------------------------------------------ readers of
// JSON

void check_registration(std::string_view body) {
    RankRegistration told;
    if (!read_registration(body, &told).ok())
        return;
    RankRegistration again;
    holds(read_registration(registration_body(told.record), &again), "a registration can be sent on");
    holds(again.record.place == told.record.place && again.record.address == told.record.address &&
              again.record.topology == told.record.topology,
          "a registration sent on is the same");
    Topology topology;
    holds(read_topology(topology_body(told.record.topology, told.extras), &topology), "its topology can be told");
    holds(topology == told.record.topology, "a topology told is the same");
}

void read_everything(std::string_view body) {
    check_registration(body);
    Topology topology, topology_again;
    if (read_topology(body, &topology).ok()) {
        holds(read_topology(topology_body(topology, {}), &topology_again), "a topology can be sent on");
        holds(topology_again == topology, "a topology sent on is the same");
    }
    RankAddress address, address_again;
    if (read_rank_address(body, &address).ok()) {
        holds(read_rank_address(rank_address_body(address), &address_again), "an address can be sent on");
        holds(address_again == address, "an address sent on is the same");
    }
    RoomDpRank room, room_again;
    if (read_room_dp_rank(body, &room).ok()) {
        holds(read_room_dp_rank(room_dp_rank_body(room), &room_again), "a room's dp rank can be sent on");
        holds(room_again.room_id == room.room_id && room_again.dp_rank == room.dp_rank, "it is the same");
    }
    std::vector<uint64_t> rooms, rooms_again;
    if (read_dp_rank_query(body, &rooms).ok()) {
        holds(read_dp_rank_query(dp_rank_query_body(rooms), &rooms_again), "a question can be sent on");
        holds(rooms_again == rooms, "a question sent on is the same");
    }
    std::map<uint64_t, uint32_t> ranks, ranks_again;
    if (read_dp_ranks(body, &ranks).ok()) {
        holds(read_dp_ranks(dp_ranks_body(ranks), &ranks_again), "dp ranks can be sent on");
        holds(ranks_again == ranks, "dp ranks sent on are the same");
    }
}

// ---------------------------------------------------------------------------------------------------------- the client

// One connection, which is answered with these bytes whatever it asks.
class Answering {
  public:
    explicit Answering(boost::asio::io_context &io) : acceptor_(io, tcp::endpoint(tcp::v4(), 0)), socket_(io) {
        acceptor_.listen();
    }

    std::string address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }

    void answer(std::string_view bytes) {
        acceptor_.async_accept(socket_, [this, bytes](error_code error) {
            if (error)
                return;
            boost::asio::write(socket_, boost::asio::buffer(bytes), error);
            socket_.shutdown(tcp::socket::shutdown_send, error);
            read();
        });
    }

    void close() {
        error_code ignored;
        acceptor_.cancel(ignored);
        socket_.close(ignored);
    }

  private:
    // Until the client hangs up, which goes first so that its port is soon free again.
    void read() {
        socket_.async_read_some(boost::asio::buffer(asked_), [this](error_code error, size_t) {
            if (!error)
                read();
        });
    }

    tcp::acceptor acceptor_;
    tcp::socket socket_;
    std::array<char, 4096> asked_{};
};

void answer_client(Input in) {
    static boost::asio::io_context io(1);
    static Answering server(io);
    const uint32_t call = in.below(5);
    const std::span<const uint8_t> bytes = in.rest();
    server.answer({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
    int answers = 0;
    const auto answered = [&](const Status &status) {
        ++answers;
        holds(status.ok() || is_text(status.sentence()), "a sentence is plain text");
    };
    BootstrapClient client(io);
    if (call == 0)
        client.topology(server.address(), [&](const Status &status, const Topology &) { answered(status); });
    else if (call == 1)
        client.rank(server.address(), {}, [&](const Status &status, const RankAddress &) { answered(status); });
    else if (call == 2)
        client.dp_rank_of_room(server.address(), 7,
                               [&](const Status &status, std::optional<uint32_t>) { answered(status); });
    else if (call == 3)
        client.register_rank(server.address(), {}, answered);
    else
        client.register_dp_rank(server.address(), 7, 1, answered);
    io.restart();
    while (answers == 0)
        io.run_one();
    server.close();
    io.run();
    holds(answers == 1, "a call is answered once");
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    fuzz::quiet();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input({data, size});
    const uint32_t who = input.below(4);
    if (who == 1) {
        ask_registry(input);
        return 0;
    }
    if (who == 3) {
        answer_client(input);
        return 0;
    }
    const std::string bytes = input.text(size);
    if (who == 0)
        talk_to_server(bytes);
    else
        read_everything(bytes);
    return 0;
}
