// The bootstrap client, against the real server and against servers that are dead, slow, or talk nonsense.
#include "control/bootstrap_client.h"

#include "bootstrap_wire.h"
#include "control/bootstrap_server.h"
#include "two_addresses.h"

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvf {
namespace {

constexpr uint64_t kBigRoom = ~uint64_t{0};

std::string http(const std::string &status, const std::string &body) {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

RankRecord record(uint32_t tp_rank, uint32_t tp_size) {
    RankRecord out;
    out.place = {.dp = 0, .cp = 0, .tp = tp_rank, .pp = 0};
    out.address = {"10.0.0.7", static_cast<uint16_t>(40000 + tp_rank)};
    out.topology.sizes.tp = tp_size;
    out.topology.page_size = 64;
    out.topology.kv_cache_dtype = "auto";
    return out;
}

class Client : public testing::Test {
  protected:
    // Runs until nothing is under way.
    void run() {
        io_.run();
        io_.restart();
    }

    Status register_rank(const std::string &address, const RankRecord &rank) {
        std::optional<Status> out;
        client_->register_rank(address, rank, [&](const Status &status) { out = status; });
        EXPECT_FALSE(out) << "called back from within the call";
        run();
        return out.value();
    }

    Status topology(const std::string &address, Topology *got = nullptr) {
        std::optional<Status> out;
        client_->topology(address, [&](const Status &status, const Topology &topology) {
            out = status;
            if (got != nullptr)
                *got = topology;
        });
        EXPECT_FALSE(out) << "called back from within the call";
        run();
        return out.value();
    }

    Status rank(const std::string &address, const RankPlace &place, RankAddress *got = nullptr) {
        std::optional<Status> out;
        client_->rank(address, place, [&](const Status &status, const RankAddress &rank) {
            out = status;
            if (got != nullptr)
                *got = rank;
        });
        run();
        return out.value();
    }

    Status dp_rank(const std::string &address, uint64_t room, std::optional<uint32_t> *got = nullptr) {
        std::optional<Status> out;
        client_->dp_rank_of_room(address, room, [&](const Status &status, std::optional<uint32_t> rank) {
            out = status;
            if (got != nullptr)
                *got = rank;
        });
        run();
        return out.value();
    }

    Status register_room(const std::string &address, uint64_t room, uint32_t dp) {
        std::optional<Status> out;
        client_->register_dp_rank(address, room, dp, [&](const Status &status) { out = status; });
        run();
        return out.value();
    }

    // What the client makes of a server that answers any question with these bytes.
    Status topology_from(const std::string &bytes) {
        const wire::Server server(wire::answering(bytes));
        return topology(server.address());
    }

    boost::asio::io_context io_;
    std::unique_ptr<BootstrapClient> client_ = std::make_unique<BootstrapClient>(io_);
};

class ClientAndServer : public Client {
  protected:
    void SetUp() override {
        const Status status = BootstrapServer::start("127.0.0.1:0", false, 1024, &server_);
        ASSERT_TRUE(status.ok()) << status.sentence();
        address_ = server_->address();
    }

    std::unique_ptr<BootstrapServer> server_;
    std::string address_;
};

TEST_F(ClientAndServer, an_address_that_does_not_answer_does_not_hide_the_next) {
    const std::string port = address_.substr(address_.rfind(':') + 1);
    const test::Silent first("127.0.0.2", static_cast<uint16_t>(std::stoi(port)));
    const Status status = topology("two.addresses:" + port);
    EXPECT_EQ(status.code(), KVF_ERR_AGAIN) << status.sentence(); // no rank has registered
}

TEST_F(ClientAndServer, what_a_rank_registers_is_what_another_gets) {
    RankRecord sent = record(0, 2);
    ASSERT_TRUE(register_rank(address_, sent).ok());
    ASSERT_TRUE(register_rank(address_, record(1, 2)).ok());
    Topology got;
    ASSERT_TRUE(topology(address_, &got).ok());
    EXPECT_EQ(got, sent.topology);
    RankAddress rank_address;
    ASSERT_TRUE(rank(address_, {.dp = 0, .cp = 0, .tp = 1, .pp = 0}, &rank_address).ok());
    EXPECT_EQ(rank_address, (RankAddress{"10.0.0.7", 40001}));
}

TEST_F(ClientAndServer, every_field_of_a_record_makes_the_journey) {
    RankRecord sent = record(0, 1);
    sent.topology.page_size = 0;
    sent.topology.kv_cache_dtype = "";
    sent.topology.follow_bootstrap_room = false;
    sent.topology.sizes = {.dp = 2, .cp = 1, .tp = 1, .pp = 2};
    for (uint32_t dp = 0; dp < 2; ++dp) {
        for (uint32_t pp = 0; pp < 2; ++pp) {
            sent.place = {.dp = dp, .cp = 0, .tp = 0, .pp = pp};
            sent.address = {"fe80::1", static_cast<uint16_t>(1 + 2 * dp + pp)};
            ASSERT_TRUE(register_rank(address_, sent).ok());
        }
    }
    Topology got;
    ASSERT_TRUE(topology(address_, &got).ok());
    EXPECT_EQ(got, sent.topology);
    RankAddress rank_address;
    ASSERT_TRUE(rank(address_, {.dp = 1, .cp = 0, .tp = 0, .pp = 0}, &rank_address).ok());
    EXPECT_EQ(rank_address, (RankAddress{"fe80::1", 3}));
}

TEST_F(ClientAndServer, before_all_ranks_are_there_it_is_try_again) {
    ASSERT_TRUE(register_rank(address_, record(0, 2)).ok());
    const Status status = topology(address_);
    EXPECT_EQ(status.code(), KVF_ERR_AGAIN);
    EXPECT_NE(status.sentence().find("bootstrap server " + address_ + ": not all ranks have registered"),
              std::string::npos)
        << status.sentence();
    EXPECT_NE(status.sentence().find("tp rank 1"), std::string::npos) << status.sentence();
    EXPECT_EQ(rank(address_, {}).code(), KVF_ERR_AGAIN);
}

TEST_F(ClientAndServer, a_rank_that_is_not_there_is_named) {
    ASSERT_TRUE(register_rank(address_, record(0, 1)).ok());
    const Status status = rank(address_, {.dp = 1, .cp = 0, .tp = 2, .pp = 3});
    EXPECT_EQ(status.code(), KVF_ERR_BOOTSTRAP);
    EXPECT_EQ(status.sentence(),
              "bootstrap server " + address_ + " knows no rank with dp rank 1, cp rank 0, tp rank 2, pp rank 3");
}

TEST_F(ClientAndServer, a_refused_registration_says_why) {
    ASSERT_TRUE(register_rank(address_, record(0, 2)).ok());
    const Status status = register_rank(address_, record(1, 4));
    EXPECT_EQ(status.code(), KVF_ERR_BOOTSTRAP);
    EXPECT_EQ(status.sentence(), "bootstrap server " + address_ +
                                     " refused with HTTP 400: attn_tp_size is 4, but the ranks registered here have 2");
}

TEST_F(ClientAndServer, the_dp_rank_of_a_room_is_none_until_it_is_registered) {
    std::optional<uint32_t> got = 9;
    ASSERT_TRUE(dp_rank(address_, kBigRoom, &got).ok());
    EXPECT_EQ(got, std::nullopt);
    ASSERT_TRUE(register_room(address_, kBigRoom, 3).ok());
    ASSERT_TRUE(dp_rank(address_, kBigRoom, &got).ok());
    EXPECT_EQ(got, 3U);
}

TEST_F(ClientAndServer, a_burst_of_rooms_is_answered_for_each) {
    ASSERT_TRUE(register_room(address_, 7, 1).ok());
    int answers = 0;
    int known = 0;
    for (uint64_t room = 0; room < 10000; ++room) {
        client_->dp_rank_of_room(address_, room, [&](const Status &status, std::optional<uint32_t> rank) {
            EXPECT_TRUE(status.ok()) << status.sentence();
            ++answers;
            known += rank ? 1 : 0;
        });
    }
    run();
    EXPECT_EQ(answers, 10000);
    EXPECT_EQ(known, 1);
}

TEST_F(ClientAndServer, a_burst_of_other_requests_is_answered_for_each) {
    ASSERT_TRUE(register_rank(address_, record(0, 1)).ok());
    int answers = 0;
    for (int i = 0; i < 100; ++i) {
        client_->topology(address_, [&](const Status &status, const Topology &) {
            EXPECT_TRUE(status.ok()) << status.sentence();
            ++answers;
        });
    }
    run();
    EXPECT_EQ(answers, 100);
}

TEST_F(ClientAndServer, finds_the_server_by_a_host_name) {
    ASSERT_TRUE(register_rank("localhost:" + std::to_string(wire::port_of(address_)), record(0, 1)).ok());
}

TEST_F(ClientAndServer, a_callback_may_ask_again) {
    int asked = 0;
    BootstrapClient::GotDpRank again = [&](const Status &status, std::optional<uint32_t>) {
        EXPECT_TRUE(status.ok()) << status.sentence();
        if (++asked < 5)
            client_->dp_rank_of_room(address_, 1, again);
    };
    client_->dp_rank_of_room(address_, 1, again);
    run();
    EXPECT_EQ(asked, 5);
}

// Asks several things and has some of them under way; some may be answered by then.
void begin_some(BootstrapClient *client, const std::string &address, int *answers) {
    client->topology(address, [answers](const Status &, const Topology &) { ++*answers; });
    for (uint64_t room = 0; room < 3; ++room)
        client->dp_rank_of_room(address, room, [answers](const Status &, std::optional<uint32_t>) { ++*answers; });
    client->register_rank("localhost:1", record(0, 1), [answers](const Status &) { ++*answers; });
}

TEST_F(ClientAndServer, nothing_is_called_back_after_cancel_all) {
    int answers = 0;
    begin_some(client_.get(), address_, &answers);
    io_.poll();
    client_->rank("nonsense", {}, [&](const Status &, const RankAddress &) { ++answers; });
    const int before = answers;
    client_->cancel_all();
    run();
    EXPECT_EQ(answers, before);
    EXPECT_TRUE(dp_rank(address_, 1).ok()) << "the client is of use after it";
}

TEST_F(ClientAndServer, nothing_is_called_back_after_the_end_of_the_client) {
    int answers = 0;
    begin_some(client_.get(), address_, &answers);
    io_.poll();
    const int before = answers;
    client_.reset();
    run();
    EXPECT_EQ(answers, before);
}

TEST_F(ClientAndServer, a_callback_may_end_the_client_and_the_rest_are_not_called) {
    int calls = 0;
    for (uint64_t room = 0; room < 3; ++room) {
        client_->dp_rank_of_room(address_, room, [&](const Status &, std::optional<uint32_t>) {
            ++calls;
            client_.reset();
        });
    }
    for (int i = 0; i < 10; ++i) {
        client_->topology(address_, [&](const Status &, const Topology &) {
            ++calls;
            client_.reset();
        });
    }
    run();
    EXPECT_EQ(calls, 1);
}

TEST_F(Client, a_server_that_is_not_there_is_told_with_its_address) {
    std::string address;
    {
        // A port that was free a moment ago.
        std::unique_ptr<BootstrapServer> server;
        ASSERT_TRUE(BootstrapServer::start("127.0.0.1:0", false, 1, &server).ok());
        address = server->address();
    }
    const Status status = topology(address);
    EXPECT_EQ(status.code(), KVF_ERR_BOOTSTRAP);
    EXPECT_EQ(status.sentence(), "bootstrap server " + address + " is not there: connection refused");
}

TEST_F(Client, a_host_that_has_no_address_is_told) {
    const Status status = topology("no-such-host.invalid:80");
    EXPECT_EQ(status.code(), KVF_ERR_BOOTSTRAP);
    EXPECT_EQ(status.sentence().rfind("bootstrap server no-such-host.invalid:80 ", 0), 0U) << status.sentence();
}

TEST_F(Client, an_address_that_does_not_parse_is_invalid) {
    for (const char *address : {"", "x", "127.0.0.1", "127.0.0.1:x", "http://127.0.0.1:80"}) {
        const Status status = topology(address);
        EXPECT_EQ(status.code(), KVF_ERR_INVALID) << address;
        EXPECT_EQ(status.sentence(), "bootstrap server address '" + std::string(address) + "': expected host:port");
    }
    EXPECT_NE(topology("127.0.0.1:99999").sentence().find("out of range"), std::string::npos);
    EXPECT_EQ(dp_rank("127.0.0.1:0", 1).code(), KVF_ERR_INVALID);
}

TEST_F(Client, a_server_that_does_not_answer_is_given_up) {
    client_ = std::make_unique<BootstrapClient>(io_, std::chrono::milliseconds(50));
    const wire::Server server([](wire::Socket &socket) { socket.read_to_end(); });
    const Status status = topology(server.address());
    EXPECT_EQ(status.code(), KVF_ERR_BOOTSTRAP);
    EXPECT_EQ(status.sentence(), "bootstrap server " + server.address() + " did not answer within 50 ms");
}

TEST_F(Client, requests_that_wait_behind_a_silent_server_are_given_up_in_time_too) {
    client_ = std::make_unique<BootstrapClient>(io_, std::chrono::milliseconds(50));
    const wire::Server server([](wire::Socket &socket) { socket.read_to_end(); });
    int failed = 0;
    for (int i = 0; i < 50; ++i)
        client_->topology(server.address(), [&](const Status &status, const Topology &) {
            EXPECT_EQ(status.code(), KVF_ERR_BOOTSTRAP);
            ++failed;
        });
    run();
    EXPECT_EQ(failed, 50);
}

TEST_F(Client, a_server_that_drips_its_answer_is_given_up) {
    client_ = std::make_unique<BootstrapClient>(io_, std::chrono::milliseconds(50));
    const wire::Server server([](wire::Socket &socket) {
        socket.read_until("\r\n\r\n");
        socket.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"attn");
        socket.read_to_end();
    });
    EXPECT_EQ(topology(server.address()).code(), KVF_ERR_BOOTSTRAP);
}

TEST_F(Client, a_server_that_hangs_up_is_told) {
    for (const std::string part : {"", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"}) {
        const Status status = topology_from(part);
        EXPECT_EQ(status.code(), KVF_ERR_BOOTSTRAP) << part;
        EXPECT_NE(status.sentence().find("closed the connection before it had answered"), std::string::npos)
            << status.sentence();
    }
}

TEST_F(Client, what_is_not_http_is_a_broken_protocol) {
    for (const std::string &bytes : {std::string("SSH-2.0-OpenSSH_9.2\r\n\r\n"), std::string("HTTP/1.1 abc\r\n\r\n"),
                                     std::string("\x20\0\0\0KVFR", 8)}) {
        const Status status = topology_from(bytes);
        EXPECT_EQ(status.code(), KVF_ERR_PROTOCOL) << bytes;
        EXPECT_NE(status.sentence().find("did not answer in HTTP"), std::string::npos) << status.sentence();
    }
}

TEST_F(Client, an_engines_control_address_is_recognized) {
    const Status status = topology_from(std::string("\x20\0\0\0KVFR", 8));
    EXPECT_NE(status.sentence().find("an engine's control address"), std::string::npos) << status.sentence();
}

TEST_F(Client, an_answer_that_is_too_long_is_a_broken_protocol) {
    EXPECT_EQ(topology_from(http("200 OK", std::string((1U << 20) + 1, ' '))).code(), KVF_ERR_PROTOCOL);
    EXPECT_EQ(topology_from("HTTP/1.1 200 OK\r\n\r\n" + std::string((1U << 20) + 1, ' ')).code(), KVF_ERR_PROTOCOL);
    EXPECT_EQ(topology_from("HTTP/1.1 200 OK\r\nX: " + std::string(10000, ' ') + "\r\n\r\n").code(), KVF_ERR_PROTOCOL);
}

TEST_F(Client, an_answer_of_other_json_is_a_broken_protocol_and_names_the_field) {
    const std::string good =
        R"("attn_tp_size":1,"attn_cp_size":1,"dp_size":1,"pp_size":1,"follow_bootstrap_room":true)";
    EXPECT_TRUE(topology_from(http("200 OK", "{" + good + "}")).ok());
    for (const std::string body : {"", "OK", "[]", "{}", R"({"attn_tp_size":"x"})"})
        EXPECT_EQ(topology_from(http("200 OK", body)).code(), KVF_ERR_PROTOCOL) << body;
    for (const std::string change : {R"("attn_tp_size":0)", R"("dp_size":-1)", R"("pp_size":65537)",
                                     R"("attn_cp_size":1.5)", R"("page_size":99999999999)", R"("kv_cache_dtype":7)",
                                     R"("follow_bootstrap_room":1)", R"("attn_tp_size":null)"}) {
        const Status status = topology_from(http("200 OK", "{" + good + "," + change + "}"));
        EXPECT_EQ(status.code(), KVF_ERR_PROTOCOL) << change;
        const std::string name = change.substr(1, change.find('"', 1) - 1);
        EXPECT_NE(status.sentence().find(name + " is "), std::string::npos) << status.sentence();
    }
}

TEST_F(Client, fields_of_later_releases_in_an_answer_are_ignored) {
    EXPECT_TRUE(topology_from(http("200 OK", R"({"attn_tp_size":1,"attn_cp_size":1,"dp_size":1,"pp_size":1,)"
                                             R"("follow_bootstrap_room":true,"page_size":null,"target_tp_ranks":null,)"
                                             R"("new":{"a":[1]}})"))
                    .ok());
}

TEST_F(Client, the_address_of_a_rank_is_checked) {
    for (const std::string body : {R"({"rank_ip":"","rank_port":1})", R"({"rank_ip":"a b","rank_port":1})",
                                   R"({"rank_ip":"10.0.0.1","rank_port":0})", R"({"rank_ip":"10.0.0.1"})",
                                   R"({"rank_port":1})", R"({"rank_ip":7,"rank_port":1})"}) {
        const wire::Server server(wire::answering(http("200 OK", body)));
        EXPECT_EQ(rank(server.address(), {}).code(), KVF_ERR_PROTOCOL) << body;
    }
}

TEST_F(Client, the_dp_ranks_of_rooms_are_checked) {
    for (const std::string body : {R"({"x":1})", R"({"1":-1})", R"({"1":65536})", R"({"1":{}})", R"({"-1":1})",
                                   R"({"18446744073709551616":1})", "[1]"}) {
        const wire::Server server(wire::answering(http("200 OK", body)));
        EXPECT_EQ(dp_rank(server.address(), 1).code(), KVF_ERR_PROTOCOL) << body;
    }
    const wire::Server other(wire::answering(http("200 OK", R"({"2":1})")));
    std::optional<uint32_t> got = 9;
    EXPECT_TRUE(dp_rank(other.address(), 1, &got).ok());
    EXPECT_EQ(got, std::nullopt);
}

TEST_F(Client, every_other_http_status_is_told_with_what_the_server_said) {
    for (const char *status : {"301 Moved", "400 Bad", "404 None", "500 Oops", "999 What"}) {
        const Status got = topology_from(http(status, "first line\nsecond \x1b[31m"));
        EXPECT_EQ(got.code(), KVF_ERR_BOOTSTRAP) << status;
        EXPECT_NE(got.sentence().find("refused with HTTP " + std::string(status, 3)), std::string::npos)
            << got.sentence();
        EXPECT_EQ(got.sentence().find_first_of("\n\x1b"), std::string::npos) << got.sentence();
    }
    const Status again = topology_from(http("503 Wait", "soon"));
    EXPECT_EQ(again.code(), KVF_ERR_AGAIN);
    EXPECT_NE(again.sentence().find("(soon)"), std::string::npos) << again.sentence();
}

TEST_F(Client, one_dead_server_does_not_hold_up_another) {
    client_ = std::make_unique<BootstrapClient>(io_, std::chrono::seconds(30));
    const wire::Server silent([](wire::Socket &socket) { socket.read_to_end(); });
    std::unique_ptr<BootstrapServer> server;
    ASSERT_TRUE(BootstrapServer::start("127.0.0.1:0", false, 1, &server).ok());
    for (int i = 0; i < 20; ++i)
        client_->topology(silent.address(), [](const Status &, const Topology &) { ADD_FAILURE(); });
    bool answered = false;
    client_->register_rank(server->address(), record(0, 1), [&](const Status &status) {
        EXPECT_TRUE(status.ok()) << status.sentence();
        answered = true;
        client_->cancel_all();
    });
    run();
    EXPECT_TRUE(answered);
}

} // namespace
} // namespace kvf
