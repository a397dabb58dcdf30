// The bootstrap server over real sockets: HTTP as strangers speak it, its limits, its start and its end.
#include "control/bootstrap_server.h"

#include "bootstrap_wire.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace kvf {
namespace {

using wire::read_reply;
using wire::request;
using wire::Socket;

const std::string kHealth = request("GET", "/health");

std::unique_ptr<BootstrapServer> start(const BootstrapLimits &limits = {}) {
    std::unique_ptr<BootstrapServer> server;
    const Status status = BootstrapServer::start("127.0.0.1:0", false, 16, &server, limits);
    EXPECT_TRUE(status.ok()) << status.sentence();
    return server;
}

void expect_healthy(const BootstrapServer &server) {
    Socket socket(server.address());
    ASSERT_TRUE(socket.send(kHealth));
    const wire::Reply reply = read_reply(&socket);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "OK");
}

TEST(BootstrapServer, tells_the_port_that_it_bound) {
    const auto server = start();
    EXPECT_EQ(server->address().rfind("127.0.0.1:", 0), 0U);
    EXPECT_NE(wire::port_of(server->address()), 0);
    expect_healthy(*server);
}

TEST(BootstrapServer, a_rank_registers_and_is_found) {
    const auto server = start();
    Socket socket(server->address());
    ASSERT_TRUE(socket.send(request("PUT", "/route",
                                    R"({"attn_tp_size":1,"attn_tp_rank":0,"attn_cp_size":1,"attn_cp_rank":0,)"
                                    R"("attn_dp_size":1,"attn_dp_rank":0,"pp_size":1,"pp_rank":0,)"
                                    R"("system_dp_size":1,"system_dp_rank":0,"rank_ip":"10.0.0.7",)"
                                    R"("rank_port":40000,"page_size":64,"kv_cache_dtype":"auto"})")));
    EXPECT_EQ(read_reply(&socket).status, 200);
    ASSERT_TRUE(
        socket.send(request("GET", "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0")));
    const wire::Reply reply = read_reply(&socket);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, R"({"rank_ip":"10.0.0.7","rank_port":40000})");
    EXPECT_NE(reply.header.find("Content-Type: application/json; charset=utf-8\r\n"), std::string::npos);
}

TEST(BootstrapServer, several_requests_go_over_one_connection) {
    const auto server = start();
    Socket socket(server->address());
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(socket.send(kHealth));
        EXPECT_EQ(read_reply(&socket).status, 200);
    }
}

TEST(BootstrapServer, pipelined_requests_are_answered_in_order) {
    const auto server = start();
    Socket socket(server->address());
    ASSERT_TRUE(socket.send(kHealth + request("GET", "/none") + request("POST", "/query_dp_ranks", "{}") + kHealth));
    for (const int status : {200, 404, 400, 200})
        EXPECT_EQ(read_reply(&socket).status, status);
}

TEST(BootstrapServer, a_request_may_come_byte_by_byte) {
    const auto server = start();
    Socket socket(server->address());
    for (const char c : request("POST", "/query_dp_ranks", R"({"bootstrap_rooms":[]})"))
        ASSERT_TRUE(socket.send(std::string(1, c)));
    EXPECT_EQ(read_reply(&socket).body, "{}");
}

TEST(BootstrapServer, a_chunked_body_is_read) {
    const auto server = start();
    Socket socket(server->address());
    ASSERT_TRUE(
        socket.send("POST /query_dp_ranks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "10\r\n{\"bootstrap_room\r\n7\r\ns\":[]} \r\n0\r\n\r\n"));
    EXPECT_EQ(read_reply(&socket).body, "{}");
}

TEST(BootstrapServer, who_asks_for_a_continue_gets_it) {
    const auto server = start();
    Socket socket(server->address());
    ASSERT_TRUE(
        socket.send("POST /query_dp_ranks HTTP/1.1\r\nHost: x\r\nContent-Length: 22\r\n"
                    "Expect: 100-continue\r\n\r\n"));
    EXPECT_EQ(socket.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    ASSERT_TRUE(socket.send(R"({"bootstrap_rooms":[]})"));
    EXPECT_EQ(read_reply(&socket).body, "{}");
}

TEST(BootstrapServer, a_head_has_the_length_but_no_body) {
    const auto server = start();
    Socket socket(server->address());
    ASSERT_TRUE(socket.send(request("HEAD", "/health") + kHealth));
    const wire::Reply head = read_reply(&socket, false);
    EXPECT_EQ(head.status, 200);
    EXPECT_NE(head.header.find("Content-Length: 2\r\n"), std::string::npos);
    EXPECT_EQ(read_reply(&socket).body, "OK");
}

TEST(BootstrapServer, a_wrong_method_is_told_the_right_ones) {
    const auto server = start();
    Socket socket(server->address());
    ASSERT_TRUE(socket.send(request("DELETE", "/route")));
    const wire::Reply reply = read_reply(&socket);
    EXPECT_EQ(reply.status, 405);
    EXPECT_NE(reply.header.find("Allow: GET, HEAD, PUT\r\n"), std::string::npos);
}

TEST(BootstrapServer, a_connection_that_is_not_to_be_kept_is_closed_after_the_reply) {
    const auto server = start();
    for (const std::string start :
         {"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET /health HTTP/1.0\r\n\r\n"}) {
        Socket socket(server->address());
        ASSERT_TRUE(socket.send(start));
        const std::string all = socket.read_to_end();
        EXPECT_EQ(all.substr(all.size() - 6), "\r\n\r\nOK");
    }
}

TEST(BootstrapServer, what_is_not_http_is_told_so_and_closed) {
    const auto server = start();
    const std::string nonsense[] = {
        "\r\n\r\n\r\n",
        "hello\r\n\r\n",
        std::string("\0\1\2\3\r\n\r\n", 8),
        "GET /health\r\n\r\n",
        "GET /health HTTP/9.9\r\n\r\n",
        "GET /health HTTP/1.1\r\nno colon\r\n\r\n",
        "PUT /route HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "PUT /route HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "PUT /route HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "PUT /route HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\x16\x03\x01\x02\x01\x01\x01\xfc\x03\x03 a TLS hello\r\n\r\n",
    };
    for (const std::string &bytes : nonsense) {
        Socket socket(server->address());
        ASSERT_TRUE(socket.send(bytes));
        const std::string all = socket.read_to_end();
        EXPECT_EQ(all.rfind("HTTP/1.1 4", 0), 0U) << bytes << " -> " << all;
        EXPECT_NE(all.find("Connection: close\r\n"), std::string::npos) << bytes;
    }
    expect_healthy(*server);
}

TEST(BootstrapServer, a_header_that_is_too_long_is_refused) {
    const auto server = start();
    Socket line(server->address());
    line.send("GET /" + std::string(10000, 'a') + " HTTP/1.1\r\n\r\n");
    EXPECT_EQ(read_reply(&line).status, 431);
    Socket fields(server->address());
    std::string many = "GET /health HTTP/1.1\r\n";
    for (int i = 0; i < 1000; ++i)
        many += "X-" + std::to_string(i) + ": aaaaaaaaaaaaaaa\r\n";
    fields.send(many + "\r\n");
    EXPECT_EQ(read_reply(&fields).status, 431);
    expect_healthy(*server);
}

TEST(BootstrapServer, a_body_that_is_too_long_is_refused_before_it_is_read) {
    const auto server = start();
    Socket declared(server->address());
    ASSERT_TRUE(declared.send("PUT /route HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n"));
    EXPECT_EQ(read_reply(&declared).status, 413);
    EXPECT_EQ(declared.read_to_end(), "");
}

TEST(BootstrapServer, the_refusal_reaches_a_peer_that_sends_its_long_body_all_the_same) {
    const auto server = start();
    Socket socket(server->address());
    socket.send(request("PUT", "/route", std::string(2U << 20, 'a')));
    EXPECT_EQ(read_reply(&socket).status, 413);
}

TEST(BootstrapServer, a_chunked_body_that_grows_too_long_is_refused) {
    BootstrapLimits limits;
    limits.body_bytes = 1000;
    const auto server = start(limits);
    Socket socket(server->address());
    socket.send("PUT /route HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 3; ++i)
        socket.send("190\r\n" + std::string(400, 'a') + "\r\n");
    EXPECT_EQ(read_reply(&socket).status, 413);
}

TEST(BootstrapServer, a_silent_peer_and_one_that_stops_midway_are_closed) {
    BootstrapLimits limits;
    limits.idle = std::chrono::milliseconds(50);
    const auto server = start(limits);
    for (const std::string part : {"", "GET /hea", "PUT /route HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"}) {
        Socket socket(server->address());
        ASSERT_TRUE(socket.send(part));
        EXPECT_EQ(socket.read_to_end(), "") << part;
    }
}

TEST(BootstrapServer, peers_that_leave_midway_cost_nobody_else_anything) {
    const auto server = start();
    for (const std::string part :
         {"", "G", "GET /health HTTP/1.1\r\n", "PUT /route HTTP/1.1\r\nContent-Length: 9\r\n\r\n1"}) {
        Socket leaves(server->address());
        ASSERT_TRUE(leaves.send(part));
        leaves.end_sending();
        EXPECT_EQ(leaves.read_to_end(), "");
        const Socket gone(server->address());
        ASSERT_TRUE(gone.send(part));
    }
    expect_healthy(*server);
}

TEST(BootstrapServer, one_connection_too_many_is_closed_and_the_others_stay) {
    BootstrapLimits limits;
    limits.connections = 3;
    const auto server = start(limits);
    std::vector<Socket> open;
    for (uint32_t i = 0; i < limits.connections; ++i) {
        open.emplace_back(server->address());
        ASSERT_TRUE(open.back().send(kHealth));
        ASSERT_EQ(read_reply(&open.back()).status, 200);
    }
    Socket extra(server->address());
    EXPECT_EQ(extra.read_to_end(), "");
    for (Socket &socket : open) {
        ASSERT_TRUE(socket.send(kHealth));
        EXPECT_EQ(read_reply(&socket).status, 200);
    }
    open.clear();
    // The places are free once the server has seen the ends, which nothing tells us: so ask until it has.
    int status = 0;
    while (status != 200) {
        Socket later(server->address());
        later.send(kHealth);
        status = read_reply(&later).status;
    }
}

TEST(BootstrapServer, many_connections_at_once_are_all_served) {
    const auto server = start();
    std::vector<Socket> sockets;
    for (int i = 0; i < 200; ++i) {
        sockets.emplace_back(server->address());
        ASSERT_TRUE(sockets.back().send(kHealth));
    }
    for (Socket &socket : sockets)
        EXPECT_EQ(read_reply(&socket).body, "OK");
}

// While no descriptor can be opened accepting fails; the connections that wait are served afterwards.
TEST(BootstrapServer, lack_of_descriptors_is_waited_out) {
    const auto server = start();
    std::vector<Socket> sockets(4);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{3, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool connected = true;
    for (const Socket &socket : sockets)
        connected = socket.connect(server->address()) && connected;
    while (connected && server->accept_failures() < 2)
        std::this_thread::yield();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(connected);
    for (Socket &socket : sockets) {
        ASSERT_TRUE(socket.send(kHealth));
        EXPECT_EQ(read_reply(&socket).status, 200);
    }
}

TEST(BootstrapServer, an_address_in_use_is_told_with_the_address) {
    const auto server = start();
    std::unique_ptr<BootstrapServer> second;
    const Status status = BootstrapServer::start(server->address(), false, 16, &second);
    EXPECT_EQ(status.code(), KVF_ERR_ADDRESS_IN_USE);
    EXPECT_EQ(status.sentence(), "bootstrap listen address '" + server->address() + "' is in use");
    EXPECT_EQ(second, nullptr);
}

TEST(BootstrapServer, an_address_can_be_used_again_after_the_end_of_a_server_with_connections) {
    auto server = start();
    const std::string address = server->address();
    Socket socket(address);
    ASSERT_TRUE(socket.send(kHealth));
    EXPECT_EQ(read_reply(&socket).status, 200);
    server.reset();
    const Status status = BootstrapServer::start(address, false, 16, &server);
    ASSERT_TRUE(status.ok()) << status.sentence();
    expect_healthy(*server);
}

TEST(BootstrapServer, an_address_that_does_not_parse_is_refused) {
    for (const char *address : {"", ":", "x", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:-1", "127.0.0.1:80x",
                                "::1:80", "[::1]", "[]:80", "[::1:80", "tcp://127.0.0.1:80", "a b:80"}) {
        std::unique_ptr<BootstrapServer> server;
        const Status status = BootstrapServer::start(address, false, 16, &server);
        EXPECT_EQ(status.code(), KVF_ERR_INVALID);
        EXPECT_EQ(status.sentence(), "bootstrap listen address '" + std::string(address) + "': expected host:port");
    }
}

TEST(BootstrapServer, a_port_out_of_range_is_refused_as_one) {
    for (const char *address : {"127.0.0.1:65536", "127.0.0.1:99999999999999999999", "[::1]:70000"}) {
        std::unique_ptr<BootstrapServer> server;
        const Status status = BootstrapServer::start(address, false, 16, &server);
        EXPECT_EQ(status.code(), KVF_ERR_INVALID);
        EXPECT_EQ(status.sentence(), "bootstrap listen address '" + std::string(address) +
                                         "': its port is out of range, which ends at 65535");
    }
}

TEST(BootstrapServer, an_address_that_other_hosts_reach_takes_trust_in_the_network) {
    for (const char *address : {"0.0.0.0:0", "[::]:0"}) {
        std::unique_ptr<BootstrapServer> server;
        const Status status = BootstrapServer::start(address, false, 16, &server);
        EXPECT_EQ(status.code(), KVF_ERR_INVALID);
        EXPECT_NE(status.sentence().find("KVF_TRUST_NETWORK=1"), std::string::npos) << status.sentence();
        EXPECT_EQ(server, nullptr);
    }
    std::unique_ptr<BootstrapServer> server;
    EXPECT_TRUE(BootstrapServer::start("0.0.0.0:0", true, 16, &server).ok());
}

TEST(BootstrapServer, a_host_without_an_address_here_is_refused) {
    std::unique_ptr<BootstrapServer> server;
    EXPECT_EQ(BootstrapServer::start("192.0.2.1:0", true, 16, &server).code(), KVF_ERR_INVALID);
    EXPECT_EQ(BootstrapServer::start("no-such-host.invalid:0", false, 16, &server).code(), KVF_ERR_INVALID);
    EXPECT_EQ(server, nullptr);
}

TEST(BootstrapServer, listens_on_a_host_name) {
    std::unique_ptr<BootstrapServer> server;
    const Status status = BootstrapServer::start("localhost:0", false, 16, &server);
    ASSERT_TRUE(status.ok()) << status.sentence();
    EXPECT_NE(wire::port_of(server->address()), 0);
}

TEST(BootstrapServer, listens_on_ipv6) {
    const int probe = ::socket(AF_INET6, SOCK_STREAM, 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    const bool here = probe >= 0 && ::bind(probe, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
    ::close(probe);
    if (!here)
        GTEST_SKIP() << "no IPv6 loopback here";
    std::unique_ptr<BootstrapServer> server;
    const Status status = BootstrapServer::start("[::1]:0", false, 16, &server);
    ASSERT_TRUE(status.ok()) << status.sentence();
    EXPECT_EQ(server->address().rfind("[::1]:", 0), 0U);
}

TEST(BootstrapServer, its_end_closes_connections_in_every_state) {
    auto server = start();
    Socket silent(server->address());
    Socket midway(server->address());
    ASSERT_TRUE(midway.send("PUT /route HTTP/1.1\r\nContent-Length: 10\r\n\r\n1"));
    Socket idle(server->address());
    ASSERT_TRUE(idle.send(kHealth));
    EXPECT_EQ(read_reply(&idle).status, 200);
    Socket lingering(server->address());
    ASSERT_TRUE(lingering.send("nonsense\r\n\r\n"));
    EXPECT_EQ(read_reply(&lingering).status, 400);
    server.reset();
    for (Socket *socket : {&silent, &midway, &idle, &lingering})
        EXPECT_EQ(socket->read_to_end(), "");
}

TEST(BootstrapServer, can_end_while_requests_run) {
    for (int round = 0; round < 10; ++round) {
        auto server = start();
        const std::string address = server->address();
        std::atomic<int> answered{0};
        std::vector<std::thread> peers;
        for (int i = 0; i < 4; ++i) {
            peers.emplace_back([&] {
                Socket socket(address);
                while (socket.send(kHealth) && read_reply(&socket).status == 200)
                    ++answered;
            });
        }
        while (answered < 20)
            std::this_thread::yield();
        server.reset();
        for (std::thread &peer : peers)
            peer.join();
    }
}

TEST(BootstrapServer, a_child_after_fork_can_end_its_copy_and_the_parents_goes_on) {
    auto server = start();
    Socket before(server->address());
    ASSERT_TRUE(before.send(kHealth));
    EXPECT_EQ(read_reply(&before).status, 200);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        server.reset();
        ::_exit(0);
    }
    int ended = -1;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
    ASSERT_TRUE(before.send(kHealth));
    EXPECT_EQ(read_reply(&before).status, 200);
    expect_healthy(*server);
}

} // namespace
} // namespace kvf
