// Peers that talk nonsense: each costs its own connection, with a sentence, and nothing else.
#include "base/log.h"
#include "control_harness.h"
#include "wire_samples.h"

#include <random>

namespace kvf::test {
namespace {

using Step = Session::State;

// A stranger that plays one side of a handshake by hand.
class Protocol : public ControlTest {
  protected:
    static HelloMessage hello(uint32_t role) {
        HelloMessage message;
        message.instance = 99;
        message.role = role;
        message.name = "stranger";
        message.rank = 9;
        return message;
    }
    static LayoutMessage layout(uint64_t compared) {
        LayoutMessage message;
        message.layout.version = 1;
        message.layout.tensors = {plain_tensor(0, 0, 100), plain_tensor(0, 1, 100)};
        message.layout.tensors[1].region = 1;
        message.regions = {{409600, 0}, {409600, 0}};
        message.compared = compared;
        return message;
    }
    static RegionsMessage regions() {
        RegionsMessage message;
        message.layout_version = 1;
        message.transports = {{"fake", bytes("at 99"), {bytes("key a"), bytes("key b")}}};
        return message;
    }
    static Bytes bytes(const std::string &text) { return {text.begin(), text.end()}; }

    // Brings prefill's session with a stranger to that step; the connection.
    uint64_t dialer_at(Step step) {
        const uint64_t id = net.strange_connection(*prefill);
        if (step != Step::hello)
            net.inject(*prefill, id, hello(KVF_ROLE_DECODE));
        if (step == Step::layout || step == Step::hello)
            return id;
        LayoutMessage told = layout(0);
        if (step == Step::refused)
            told.layout.tensors[0].dtype = 77;
        net.inject(*prefill, id, told);
        if (step == Step::regions || step == Step::refused)
            return id;
        net.inject(*prefill, id, regions());
        if (step == Step::ready)
            net.inject(*prefill, id, ReadyMessage{bytes("from 99"), {}});
        return id;
    }

    // Brings decode's session with a stranger to that step; the connection.
    uint64_t acceptor_at(Step step) {
        Node silent(net, prefill_config(98), "tcp://10.0.0.9:1000");
        silent.load("fake");
        net.on_message = [](const Node &from, const WireMessage &) { return from.config().instance != 98; };
        decode->seek(1, silent.address());
        net.settle();
        net.on_message = nullptr;
        const uint64_t id = decode->open_connections().back();
        net.forget(*decode, id); // the test is the peer from here on
        if (step != Step::hello)
            net.inject(*decode, id, hello(KVF_ROLE_PREFILL));
        if (step == Step::layout || step == Step::hello)
            return id;
        LayoutMessage told = layout(1);
        if (step == Step::refused)
            told.layout.tensors[0].dtype = 77;
        net.inject(*decode, id, told);
        if (step == Step::regions || step == Step::refused)
            return id;
        net.inject(*decode, id, regions());
        if (step == Step::ready) {
            net.inject(*decode, id, SelectMessage{"fake", bytes("from 99")});
            net.inject(*decode, id, ReadyMessage{});
        }
        return id;
    }
};

constexpr Step kSteps[] = {Step::hello, Step::layout, Step::regions, Step::choosing, Step::ready, Step::refused};
constexpr const char *kStepNames[] = {"hello", "layout", "regions", "choosing", "ready", "refused"};

// What each side may be sent at each step, by kMessageNames; what is not listed is out of order.
const std::map<std::string, std::vector<Step>> kToAcceptor{
    {"HELLO", {Step::hello}},
    {"LAYOUT", {Step::layout, Step::regions, Step::choosing, Step::ready, Step::refused}},
    {"REGIONS", {Step::regions}},
    {"SELECT", {}},
    {"READY", {Step::choosing}},
    {"OFFER", {Step::ready}},
    {"STATUS", {}},
    {"ABORT", {Step::layout, Step::regions, Step::choosing, Step::ready, Step::refused}},
    {"DRAINED", {}},
    {"HEARTBEAT", {Step::layout, Step::regions, Step::choosing, Step::ready, Step::refused}},
};
const std::map<std::string, std::vector<Step>> kToDialer{
    {"HELLO", {Step::hello}},
    {"LAYOUT", {Step::layout, Step::ready, Step::refused}},
    {"REGIONS", {Step::regions}},
    {"SELECT", {Step::choosing}},
    {"READY", {}}, // in choosing only after SELECT, or with refusals: not the one below
    {"OFFER", {}},
    {"STATUS", {Step::ready}},
    {"ABORT", {}},
    {"DRAINED", {Step::layout, Step::regions, Step::choosing, Step::ready, Step::refused}},
    {"HEARTBEAT", {Step::layout, Step::regions, Step::choosing, Step::ready, Step::refused}},
};

TEST_F(Protocol, a_host_that_speaks_http_is_warned_of_once) {
    std::vector<std::string> lines;
    log_set([](void *user, int32_t,
               const char *line) { static_cast<std::vector<std::string> *>(user)->emplace_back(line); },
            &lines, KVF_LOG_WARN);
    for (int time = 0; time < 3; ++time) {
        net.inject(*prefill, net.strange_connection(*prefill), bytes("GET /health HTTP/1.1\r\n\r\n"));
        net.settle();
    }
    log_set(nullptr, nullptr, 0);
    ASSERT_EQ(lines.size(), 1u) << testing::PrintToString(lines);
    EXPECT_NE(lines[0].find("sent an HTTP request: this is an engine's control address"), std::string::npos)
        << lines[0];
}

TEST_F(Protocol, every_message_out_of_order_closes_the_acceptors_connection) {
    equip();
    const std::vector<WireMessage> messages{hello(KVF_ROLE_DECODE),
                                            layout(0),
                                            regions(),
                                            SelectMessage{"fake", {}},
                                            ReadyMessage{bytes("from 99"), {}},
                                            OfferMessage{1, 1, 0, {{0, {1, 2}}}},
                                            StatusMessage{1, 1, {}},
                                            AbortMessage{1, 1, false, {KVF_ERR_ABORTED, 0, ""}},
                                            DrainedMessage{1, 1},
                                            HeartbeatMessage{true}};
    for (const WireMessage &message : messages)
        for (const Step step : kSteps) {
            const std::string name = kMessageNames[message.index()];
            SCOPED_TRACE(name + " in " + kStepNames[static_cast<size_t>(step)]);
            const uint64_t before = prefill->counter(ControlCounter::messages_out_of_order);
            const uint64_t open = prefill->counter(ControlCounter::open_connections);
            const uint64_t id = dialer_at(step);
            ASSERT_EQ(prefill->counter(ControlCounter::open_connections), open + 1);
            net.inject(*prefill, id, message);
            const auto &allowed = kToAcceptor.at(name);
            const bool fits = std::find(allowed.begin(), allowed.end(), step) != allowed.end();
            EXPECT_EQ(prefill->counter(ControlCounter::messages_out_of_order) - before, fits ? 0u : 1u);
            EXPECT_EQ(prefill->counter(ControlCounter::open_connections), open + (fits ? 1 : 0));
        }
}

TEST_F(Protocol, every_message_out_of_order_closes_the_dialers_connection) {
    equip();
    const std::vector<WireMessage> messages{hello(KVF_ROLE_PREFILL),
                                            layout(1),
                                            regions(),
                                            SelectMessage{"fake", bytes("from 99")},
                                            ReadyMessage{},
                                            OfferMessage{1, 1, 0, {{0, {1, 2}}}},
                                            StatusMessage{1, 1, {}},
                                            AbortMessage{1, 1, false, {KVF_ERR_ABORTED, 0, ""}},
                                            DrainedMessage{1, 1},
                                            HeartbeatMessage{true}};
    for (const WireMessage &message : messages)
        for (const Step step : kSteps) {
            const std::string name = kMessageNames[message.index()];
            SCOPED_TRACE(name + " in " + kStepNames[static_cast<size_t>(step)]);
            decode = std::make_unique<Node>(net, decode_config(2), "");
            decode->load("fake");
            decode->set_tensors({plain_tensor(0, 0, 100), plain_tensor(0, 1, 100)});
            const uint64_t id = acceptor_at(step);
            ASSERT_EQ(decode->counter(ControlCounter::open_connections), 1u);
            net.inject(*decode, id, message);
            const auto &allowed = kToDialer.at(name);
            const bool fits = std::find(allowed.begin(), allowed.end(), step) != allowed.end();
            EXPECT_EQ(decode->counter(ControlCounter::messages_out_of_order), fits ? 0u : 1u);
            EXPECT_EQ(decode->counter(ControlCounter::open_connections), fits ? 1u : 0u);
        }
}

TEST_F(Protocol, the_sentence_says_who_sent_what_and_when) {
    equip();
    std::string bye;
    net.on_message = [&](const Node &, const WireMessage &message) {
        if (const auto *it = std::get_if<ByeMessage>(&message))
            bye = it->cause.sentence;
        return true;
    };
    net.inject(*prefill, dialer_at(Step::layout), OfferMessage{1, 1, 0, {}});
    EXPECT_EQ(bye, "stranger (tcp://stranger) sent OFFER before both LAYOUTs");
    net.inject(*prefill, dialer_at(Step::layout), std::vector<uint8_t>{255, 255, 255, 255});
    EXPECT_EQ(bye, "stranger (tcp://stranger) sent a frame of 4294967295 bytes; 16 to 16777212 are allowed here");
}

TEST_F(Protocol, one_host_has_its_share_of_connections_and_no_more) {
    std::vector<uint64_t> first;
    for (int i = 0; i < 1024; ++i)
        first.push_back(prefill->control().accepted("tcp://10.9.9.9:" + std::to_string(i)));
    EXPECT_NE(first.back(), 0u);
    EXPECT_EQ(prefill->control().accepted("tcp://10.9.9.9:2000"), 0u);
    EXPECT_EQ(prefill->counter(ControlCounter::connections_rejected), 1u);
    EXPECT_NE(prefill->control().accepted("tcp://10.9.9.8:2000"), 0u);
    EXPECT_NE(prefill->control().accepted("tcp://[::1]:2000"), 0u);
    prefill->control().closed(first.front(), Status(KVF_ERR_PEER_LOST, "gone"));
    EXPECT_NE(prefill->control().accepted("tcp://10.9.9.9:2000"), 0u);
    EXPECT_EQ(prefill->control().accepted("tcp://10.9.9.9:2001"), 0u);
}

// Parts of frames: the connection with most of them goes, and those that hold little stay.
TEST_F(Protocol, what_peers_that_are_not_ready_have_sent_is_bounded) {
    equip();
    const auto greeted = [&] {
        const uint64_t id = net.strange_connection(*prefill);
        net.inject(*prefill, id, hello(KVF_ROLE_DECODE));
        return id;
    };
    const uint64_t small = greeted();
    net.inject(*prefill, small, std::vector<uint8_t>{0, 0, 0x10, 0, 1});
    std::vector<uint8_t> part(size_t{15} << 20);
    part[2] = 0xf8; // of 15.5 MiB
    for (int i = 0; i < 17; ++i)
        net.inject(*prefill, greeted(), part);
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 18u);
    part.resize(part.size() + 1000);
    net.inject(*prefill, greeted(), part); // the largest
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 18u);
    net.inject(*prefill, small, std::vector<uint8_t>{1});
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 18u);
}

TEST_F(Protocol, a_dialer_that_does_not_choose_is_given_up) {
    equip();
    const uint64_t before = dialer_at(Step::ready);
    for (const Step step : {Step::regions, Step::choosing}) {
        const uint64_t id = dialer_at(step);
        const auto last = [&](uint64_t ms) {
            for (uint64_t gone = 0; gone < ms; gone += 1000) {
                net.advance_ms(1000);
                for (const uint64_t alive : {before, id})
                    net.inject(*prefill, alive, HeartbeatMessage{});
            }
        };
        last(58'000);
        EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 2u);
        last(4'000);
        EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 1u);
    }
}

// What a room offers is between its two sides: its sender looks at it.
TEST_F(Protocol, an_offer_of_pages_that_are_not_there_costs_no_connection) {
    equip();
    const uint64_t id = dialer_at(Step::ready);
    net.inject(*prefill, id, OfferMessage{1, 1, 0, {{0, {99, 100}}}});
    net.inject(*prefill, id, OfferMessage{2, 2, 0, {{5, {0}}}});
    net.inject(*prefill, id, OfferMessage{3, 3, 0, {{0, std::vector<uint32_t>(101, 7)}}});
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 1u);
    for (const uint64_t room : {1, 2, 3})
        EXPECT_EQ(prefill->take<OfferCame>().room_id, room);
}

TEST_F(Protocol, an_update_must_be_whole_and_newer) {
    equip();
    const uint64_t id = dialer_at(Step::ready);
    LayoutMessage told = layout(0);
    told.layout.version = 2;
    net.inject(*prefill, id, told);
    RegionsMessage keys = regions();
    net.inject(*prefill, id, keys); // of version 1
    EXPECT_EQ(prefill->counter(ControlCounter::messages_out_of_order), 1u);
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 0u);

    const uint64_t other = dialer_at(Step::ready);
    net.inject(*prefill, other, told);
    net.inject(*prefill, other, layout(0)); // version 1 after 2
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 0u);
}

TEST_F(Protocol, a_layout_compared_with_one_that_was_not_sent_is_refused) {
    equip();
    const uint64_t id = acceptor_at(Step::layout);
    net.inject(*decode, id, layout(5));
    EXPECT_EQ(decode->counter(ControlCounter::messages_out_of_order), 1u);
}

TEST_F(Protocol, a_connection_without_hello_is_closed_after_ten_seconds) {
    (void)net.strange_connection(*prefill);
    net.advance_ms(9'900);
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 1u);
    net.advance_ms(200);
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 0u);
}

TEST_F(Protocol, connections_are_bounded) {
    for (int i = 0; i < 4096; ++i)
        ASSERT_NE(prefill->control().accepted("tcp://10.0.0." + std::to_string(i % 8) + ":4000"), 0u);
    EXPECT_EQ(net.strange_connection(*prefill), 0u);
    EXPECT_EQ(prefill->counter(ControlCounter::connections_rejected), 1u);
}

TEST_F(Protocol, a_stranger_costs_others_nothing) {
    equip();
    const LinkRef link = connect();
    std::mt19937_64 random(3);
    for (int i = 0; i < 200; ++i) {
        const uint64_t id = dialer_at(kSteps[random() % 6]);
        const auto samples = sample_messages();
        net.inject(*prefill, id, samples[random() % samples.size()]);
        std::vector<uint8_t> noise(random() % 100);
        for (uint8_t &byte : noise)
            byte = static_cast<uint8_t>(random());
        net.inject(*prefill, id, noise);
    }
    prefill->shards.clear();
    decode->control().handle(SendOffer{link, 1, RoomHandle{1}, 5, {{0, {1, 2, 3}}}});
    net.settle();
    EXPECT_EQ(prefill->take<OfferCame>().room_id, 1u);
}

} // namespace
} // namespace kvf::test
