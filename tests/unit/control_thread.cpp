// Two control threads over real sockets.
#include "control/control_thread.h"

#include "control/control.h"
#include "control/listener.h"
#include "control_harness.h"
#include "two_addresses.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

namespace kvf::test {
namespace {

// What a control thread sends to shards, for a test that waits for it.
class Shards {
  public:
    void put(uint32_t, ToShard &&message) {
        const std::lock_guard<std::mutex> guard(mutex_);
        messages_.push_back(std::move(message));
        came_.notify_all();
    }

    // Waits for a message of that type; those of others before it are dropped.
    template <typename Message>
    Message wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            came_.wait(lock, [&] { return !messages_.empty(); });
            ToShard message = std::move(messages_.front());
            messages_.pop_front();
            if (auto *found = std::get_if<Message>(&message))
                return std::move(*found);
        }
    }

    void clear() {
        const std::lock_guard<std::mutex> guard(mutex_);
        messages_.clear();
    }

  private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::deque<ToShard> messages_;
};

struct Engine {
    explicit Engine(const ControlConfig &config) {
        const Status status = ControlThread::start(
            config, [this](uint32_t shard, ToShard &&message) { shards.put(shard, std::move(message)); }, &thread);
        EXPECT_TRUE(status.ok()) << status.sentence();
    }
    ~Engine() {
        shards.clear();
        if (thread)
            thread->stop();
        thread.reset();
        for (kvf_region *region : regions)
            transport->deregister_region(region);
    }

    void equip(uint64_t instance) {
        thread->call([&](Control &control) {
            transport = open_fake("fake", instance);
            auto layout = std::make_shared<Layout>();
            layout->version = 1;
            layout->tensors = {plain_tensor(0, 0, 1000)};
            layout->regions.emplace_back().length = 4096 * 1000;
            kvf_region_params params{};
            params.length = 4096 * 1000;
            EXPECT_TRUE(transport->register_region(params, &regions.emplace_back()).ok());
            EXPECT_TRUE(control.add_transport(transport, {}).ok());
            EXPECT_TRUE(control.set_layout(layout, {{transport, regions}}).ok());
        });
    }

    uint64_t counter(const std::string &name) const {
        uint64_t out = UINT64_MAX;
        thread->for_each_counter([&](const char *it, uint64_t value) {
            if (name == it)
                out = value;
        });
        return out;
    }

    Shards shards;
    std::shared_ptr<Transport> transport;
    std::vector<kvf_region *> regions;
    std::unique_ptr<ControlThread> thread;
};

ControlConfig listening(const std::string &address, uint64_t instance = 1) {
    ControlConfig config = prefill_config(instance);
    config.listen = address;
    config.trust_network = true;
    return config;
}

std::string socket_path() {
    return testing::TempDir() + "kvf-control-" + std::to_string(getpid()) + ".sock";
}

// A plain client of the listening address.
class Client {
  public:
    explicit Client(const std::string &address) {
        const std::string port = address.substr(address.rfind(':') + 1);
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr *>(&name), sizeof name), 0);
    }
    ~Client() { close(fd_); }
    void send(const void *bytes, size_t size) const {
        EXPECT_EQ(::send(fd_, bytes, size, MSG_NOSIGNAL), ssize_t(size));
    }
    // Everything up to the other side's end.
    std::vector<uint8_t> drain() const {
        std::vector<uint8_t> out;
        uint8_t buffer[4096];
        for (;;) {
            const ssize_t size = recv(fd_, buffer, sizeof buffer, 0);
            if (size <= 0)
                return out;
            out.insert(out.end(), buffer, buffer + size);
        }
    }

  private:
    int fd_;
};

class Threads : public testing::TestWithParam<const char *> {
  protected:
    void SetUp() override { fake().reset(); }
    void TearDown() override {
        EXPECT_EQ(fake().peers, 0);
        EXPECT_EQ(fake().keys, 0);
    }
    static std::string listen_address() {
        return GetParam() == std::string("unix") ? "unix://" + socket_path()
                                                 : "tcp://" + std::string(GetParam()) + ":0";
    }
};

TEST_P(Threads, a_room_goes_there_and_back) {
    Engine prefill(listening(listen_address()));
    Engine decode(decode_config(2));
    prefill.equip(1);
    decode.equip(2);
    EXPECT_EQ(decode.thread->address(), "");
    decode.thread->push(SeekPeer{RoomHandle{5}, 5, Target{prefill.thread->address(), 0, 0}});
    LinkRef link = decode.shards.wait<PeerFound>().link;
    for (uint64_t room = 0; room < 200; ++room) {
        decode.thread->push(SendOffer{link, room, RoomHandle{room}, 1, {{0, {1, 2, 3}}}});
        auto offer = prefill.shards.wait<OfferCame>();
        EXPECT_EQ(offer.room_id, room);
        RoomNews news;
        news.kind = RoomNews::kSuccess;
        prefill.thread->push(SendNews{offer.link, room, offer.receiver, news});
        EXPECT_EQ(decode.shards.wait<NewsCame>().receiver, room);
    }
    link.reset();
}

TEST_P(Threads, large_and_many_messages_arrive_in_order) {
    Engine prefill(listening(listen_address()));
    Engine decode(decode_config(2));
    prefill.equip(1);
    decode.equip(2);
    decode.thread->push(SeekPeer{RoomHandle{5}, 5, Target{prefill.thread->address(), 0, 0}});
    LinkRef link = decode.shards.wait<PeerFound>().link;
    PageRuns list;
    for (uint32_t page = 0; page < 1000; page += 2)
        list.append(page, 1); // runs of one: 4 KB a message
    constexpr uint64_t kRooms = 1000;
    for (uint64_t room = 0; room < kRooms; ++room)
        decode.thread->push(SendOffer{link, room, RoomHandle{room}, 1, {list}});
    for (uint64_t room = 0; room < kRooms; ++room) {
        const auto offer = prefill.shards.wait<OfferCame>();
        ASSERT_EQ(offer.room_id, room);
        ASSERT_EQ(offer.lists[0], list);
    }
    link.reset();
}

TEST_P(Threads, a_stopped_engine_is_known_to_its_peer) {
    auto prefill = std::make_unique<Engine>(listening(listen_address()));
    Engine decode(decode_config(2));
    prefill->equip(1);
    decode.equip(2);
    decode.thread->push(SeekPeer{RoomHandle{5}, 5, Target{prefill->thread->address(), 0, 0}});
    (void)decode.shards.wait<PeerFound>();
    prefill.reset();
    EXPECT_EQ(decode.shards.wait<LinkLost>().cause.code, KVF_ERR_PEER_CLOSED);
    EXPECT_FALSE(fake().peers > 2);
}

INSTANTIATE_TEST_SUITE_P(Addresses, Threads, testing::Values("127.0.0.1", "localhost", "0.0.0.0", "unix"));

TEST(ControlThread, runs_what_is_called_in_order_and_nothing_after_its_end) {
    Engine engine(listening("tcp://127.0.0.1:0"));
    std::vector<int> order;
    EXPECT_TRUE(engine.thread->post([&](Control &) { order.push_back(1); }));
    EXPECT_TRUE(engine.thread->call([&](Control &) { order.push_back(2); }));
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    engine.thread->stop();
    engine.thread->stop();
    EXPECT_FALSE(engine.thread->post([&](Control &) { order.push_back(3); }));
    EXPECT_FALSE(engine.thread->call([&](Control &) { order.push_back(3); }));
    engine.thread->push(ForgetPeer{});
    EXPECT_EQ(order.size(), 2u);
}

TEST(ControlThread, calls_of_many_threads_all_run) {
    Engine engine(decode_config(1));
    std::atomic<int> ran{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int j = 0; j < 200; ++j) {
                engine.thread->push(ForgetPeer{});
                if (j % 10 == 0)
                    engine.thread->call([&](Control &) { ++ran; });
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(ran, 80);
}

TEST(ControlThread, junk_ends_its_connection_and_no_other) {
    Engine engine(listening("tcp://127.0.0.1:0"));
    const Client good(engine.thread->address());
    for (int i = 0; i < 20; ++i) {
        const Client bad(engine.thread->address());
        bad.send("GET / HTTP/1.1\r\n\r\n", 18);
        const std::vector<uint8_t> said = bad.drain(); // up to its end
        ASSERT_GT(said.size(), 12u);                   // a BYE
        EXPECT_EQ(std::string(said.begin() + 8, said.begin() + 12), "KVFW");
    }
    engine.thread->call([](Control &) {});
    EXPECT_EQ(engine.counter("messages_malformed"), 20u);
    EXPECT_EQ(engine.counter("open_connections"), 1u);
}

TEST(ControlThread, more_peers_than_are_accepted_in_one_turn_all_get_theirs) {
    Engine engine(listening("tcp://127.0.0.1:0"));
    std::vector<std::unique_ptr<Client>> clients;
    engine.thread->call([&](Control &) { // which accepts none meanwhile
        for (int i = 0; i < 100; ++i)
            clients.push_back(std::make_unique<Client>(engine.thread->address()));
    });
    for (const auto &client : clients) {
        client->send("GET / HTTP/1.1\r\n\r\n", 18);
        EXPECT_GT(client->drain().size(), 12u);
    }
    EXPECT_EQ(engine.counter("connections_accepted"), 100u);
}

TEST(ControlThread, an_address_that_does_not_answer_does_not_hide_the_next) {
    fake().reset();
    Engine prefill(listening("tcp://127.0.0.1:0"));
    const std::string address = prefill.thread->address();
    const std::string port = address.substr(address.rfind(':') + 1);
    const Silent first("127.0.0.2", static_cast<uint16_t>(std::stoi(port)));
    Engine decode(decode_config(2));
    prefill.equip(1);
    decode.equip(2);
    decode.thread->push(SeekPeer{RoomHandle{5}, 5, Target{"tcp://two.addresses:" + port, 0, 0}});
    EXPECT_TRUE(decode.shards.wait<PeerFound>().link);
    EXPECT_EQ(decode.counter("connections_dialed"), 1u);
}

// Connections of this host to that port whose first packet is unanswered.
size_t unanswered(uint16_t port) {
    std::ifstream table("/proc/net/tcp");
    std::string line, number, local, remote, state;
    size_t out = 0;
    while (std::getline(table, line)) {
        std::istringstream(line) >> number >> local >> remote >> state;
        const size_t colon = remote.find(':');
        if (state == "02" && colon != std::string::npos && std::stoul(remote.substr(colon + 1), nullptr, 16) == port)
            ++out;
    }
    return out;
}

TEST(ControlThread, a_dial_that_is_given_up_is_at_its_end) {
    Engine prefill(listening("tcp://127.0.0.1:0"));
    const std::string address = prefill.thread->address();
    const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    const Silent silent("127.0.0.2", port);
    Engine decode(decode_config(2));
    const size_t before = unanswered(port);
    decode.thread->push(
        SeekPeer{RoomHandle{5}, 5, Target{"tcp://127.0.0.2:" + std::to_string(port), KVF_DP_BY_ROOM, 0}});
    decode.thread->call([](Control &) {});
    ASSERT_EQ(unanswered(port), before + 1);
    decode.thread->call([](Control &control) { control.shutdown({KVF_ERR_CLOSED, 2, ""}); });
    EXPECT_EQ(unanswered(port), before);
}

TEST(ControlThread, an_address_in_use_is_said) {
    Engine first(listening("tcp://127.0.0.1:0"));
    std::unique_ptr<ControlThread> second;
    const Status status = ControlThread::start(
        listening(first.thread->address()), [](uint32_t, ToShard &&) {}, &second);
    EXPECT_EQ(status.code(), KVF_ERR_ADDRESS_IN_USE);
    EXPECT_EQ(status.sentence(), first.thread->address() + " is in use");
}

TEST(Listener, refuses_what_is_no_address) {
    for (const char *address : {"", "127.0.0.1:80", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "unix://",
                                "unix://relative", "http://127.0.0.1:80", "tcp://203.0.113.9:4000"}) {
        Listener listener;
        EXPECT_EQ(Listener::open(address, true, &listener).code(), KVF_ERR_INVALID) << address;
    }
    Listener listener;
    EXPECT_EQ(Listener::open("unix:///" + std::string(200, 'x'), true, &listener).code(), KVF_ERR_INVALID);
}

TEST(Listener, replaces_a_socket_file_that_nobody_listens_on_and_no_other_file) {
    const std::string path = socket_path();
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&name), sizeof name), 0);
    close(fd); // as a killed process leaves it
    {
        Listener listener, second;
        const Status status = Listener::open("unix://" + path, false, &listener);
        EXPECT_TRUE(status.ok()) << status.sentence();
        EXPECT_EQ(Listener::open("unix://" + path, false, &second).code(), KVF_ERR_ADDRESS_IN_USE);
        struct stat file {};
        ASSERT_EQ(stat(path.c_str(), &file), 0);
        EXPECT_EQ(file.st_mode & 0777, 0600u);
    }
    EXPECT_NE(access(path.c_str(), F_OK), 0); // removed with the listener
    std::ofstream(path) << "precious";
    Listener listener;
    EXPECT_EQ(Listener::open("unix://" + path, false, &listener).code(), KVF_ERR_ADDRESS_IN_USE);
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
    unlink(path.c_str());
}

TEST(Listener, other_hosts_reach_it_only_where_that_is_trusted) {
    for (const char *address : {"tcp://0.0.0.0:0", "tcp://[::]:0", "tcp://[::ffff:0.0.0.0]:0", "tcp://10.1.2.3:0"}) {
        Listener listener;
        const Status status = Listener::open(address, false, &listener);
        EXPECT_EQ(status.code(), KVF_ERR_INVALID) << address;
        EXPECT_NE(status.sentence().find(std::string("'") + address + "' is open to other hosts"), std::string::npos)
            << status.sentence();
    }
    for (const char *address : {"tcp://127.0.0.1:0", "tcp://127.1.2.3:0", "tcp://localhost:0"}) {
        Listener listener;
        const Status status = Listener::open(address, false, &listener);
        EXPECT_TRUE(status.ok()) << status.sentence();
    }
}

// Its backlog is full: a connection would have to wait.
TEST(Listener, a_listener_that_is_busy_is_in_use) {
    const std::string path = socket_path();
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    const auto *any = reinterpret_cast<const sockaddr *>(&name);
    const int busy = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(busy, any, sizeof name), 0);
    ASSERT_EQ(listen(busy, 0), 0);
    std::vector<int> waiting;
    for (int rc = 0; rc == 0;) {
        waiting.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        rc = connect(waiting.back(), any, sizeof name);
    }
    ASSERT_EQ(errno, EAGAIN);
    Listener listener;
    EXPECT_EQ(Listener::open("unix://" + path, false, &listener).code(), KVF_ERR_ADDRESS_IN_USE);
    for (const int fd : waiting)
        close(fd);
    close(busy);
    unlink(path.c_str());
}

TEST(Listener, an_address_of_all_interfaces_is_given_out_as_one_that_peers_can_dial) {
    Listener listener;
    ASSERT_TRUE(Listener::open("tcp://0.0.0.0:0", true, &listener).ok());
    EXPECT_EQ(listener.reachable("127.0.0.1:8998").substr(0, 16), "tcp://127.0.0.1:");
    EXPECT_EQ(listener.reachable("").find("0.0.0.0"), std::string::npos);
}

} // namespace
} // namespace kvf::test
