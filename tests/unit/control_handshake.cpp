// The handshake of two engines: that it comes through, and everything that can be wrong with it.
#include "control_harness.h"

namespace kvf::test {
namespace {

using Handshake = ControlTest;

TEST_F(Handshake, comes_to_a_link_on_both_sides) {
    equip();
    const LinkRef link = connect();
    EXPECT_EQ(decode->count<PeerDelayed>(), 0u);
    EXPECT_EQ(net.sent, (std::vector<std::string>{"decode HELLO", "prefill HELLO", "decode LAYOUT", "prefill LAYOUT",
                                                  "prefill REGIONS", "decode REGIONS", "prefill SELECT", "decode READY",
                                                  "prefill READY"}));
    EXPECT_EQ(link->instance, 1u);
    EXPECT_EQ(link->rank, 1u);
    EXPECT_EQ(link->name, "prefill-1 (tcp://10.0.0.1:1000)");
    EXPECT_EQ(link->transport->name(), "fake");
    EXPECT_EQ(fake().peers, 2);
    EXPECT_EQ(fake().imports, 2); // the sender's, of both regions
}

TEST_F(Handshake, rooms_share_one_connection) {
    equip();
    for (uint64_t room = 1; room <= 100; ++room)
        decode->seek(room, prefill->address());
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 100u);
    EXPECT_EQ(decode->counter(ControlCounter::connections_dialed), 1u);
    decode->seek(101, prefill->address());
    EXPECT_EQ(decode->count<PeerFound>(), 101u); // at once
}

TEST_F(Handshake, waits_until_both_sides_have_tensors) {
    prefill->load("fake");
    decode->load("fake");
    decode->seek(1, prefill->address());
    net.advance_ms(600);
    EXPECT_EQ(decode->take<PeerDelayed>().why, "decode-2 has not registered its tensors");
    decode->set_tensors({plain_tensor(0, 0, 10)});
    net.advance_ms(600);
    EXPECT_EQ(decode->take<PeerDelayed>().why, "prefill-1 (tcp://10.0.0.1:1000) has not registered its tensors");
    EXPECT_EQ(decode->count<PeerFound>(), 0u);
    prefill->set_tensors({plain_tensor(0, 0, 10)});
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
}

TEST_F(Handshake, compares_the_layouts_that_both_sides_know) {
    // Decode registers twice before prefill has anything: the later one counts.
    prefill->load("fake");
    decode->load("fake");
    decode->set_tensors({plain_tensor(0, 0, 10)});
    decode->seek(1, prefill->address());
    net.settle();
    decode->set_tensors({plain_tensor(0, 0, 10), plain_tensor(0, 1, 10)});
    net.settle();
    prefill->set_tensors({plain_tensor(0, 0, 10), plain_tensor(0, 1, 10)});
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
    EXPECT_EQ(decode->count<PeerRefused>(), 0u);
}

TEST_F(Handshake, a_layout_that_crosses_the_answer_comes_again_when_ready) {
    prefill->load("fake");
    decode->load("fake");
    decode->set_tensors({plain_tensor(0, 0, 10)});
    decode->seek(1, prefill->address());
    net.settle();
    // Both at the same moment: decode's second version is under way while prefill answers the first.
    prefill->set_tensors({plain_tensor(0, 0, 10)});
    decode->set_tensors({plain_tensor(0, 0, 10), plain_tensor(1, 0, 10)});
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
    prefill->set_tensors({plain_tensor(0, 0, 10), plain_tensor(1, 0, 10)});
    net.settle();
    decode->control().handle(SendOffer{decode->take<PeerFound>().link, 1, RoomHandle{1}, 0, {{1, {3}}}});
    net.settle();
    const auto offer = prefill->take<OfferCame>();
    ASSERT_NE(offer.routes->find(1), nullptr);
}

TEST_F(Handshake, different_layouts_are_refused_on_both_sides_with_field_and_values) {
    prefill->load("fake");
    decode->load("fake");
    Tensor tensor = plain_tensor(0, 3, 10);
    prefill->set_tensors({tensor});
    tensor.dtype = 9;
    decode->set_tensors({tensor});
    decode->seek(7, prefill->address());
    net.settle();
    const auto refused = decode->take<PeerRefused>();
    EXPECT_EQ(refused.cause.code, KVF_ERR_LAYOUT);
    EXPECT_EQ(refused.cause.rank, 2);
    EXPECT_EQ(refused.cause.sentence,
              "tensor (group 0, layer 3, part 0): dtype is 9 at decode-2 and 1 at prefill-1 "
              "(tcp://10.0.0.1:1000)");
    // The sender's room hears the same.
    const auto abort = prefill->take<AbortCame>();
    EXPECT_FALSE(abort.offered);
    EXPECT_EQ(abort.room_id, 7u);
    EXPECT_EQ(abort.receiver, 7u);
    EXPECT_EQ(abort.instance, 2u);
    EXPECT_EQ(abort.cause.sentence, refused.cause.sentence);
    EXPECT_EQ(prefill->counter(ControlCounter::handshakes_refused), 1u);
    EXPECT_EQ(decode->counter(ControlCounter::handshakes_refused), 1u);
    // Later rooms at once, without another connection.
    decode->seek(8, prefill->address());
    EXPECT_EQ(decode->count<PeerRefused>(), 1u);
    net.settle();
    EXPECT_EQ(prefill->take<AbortCame>().room_id, 8u);
    EXPECT_EQ(decode->counter(ControlCounter::connections_dialed), 1u);
}

TEST_F(Handshake, a_refused_session_is_tried_again_when_a_layout_changes) {
    prefill->load("fake");
    decode->load("fake");
    prefill->set_tensors({plain_tensor(0, 0, 10)});
    decode->set_tensors({plain_tensor(0, 0, 10), plain_tensor(0, 1, 10)});
    decode->seek(1, prefill->address());
    net.settle();
    EXPECT_EQ(decode->take<PeerRefused>().cause.sentence,
              "tensor (group 0, layer 1, part 0) is registered at decode-2 but not at prefill-1 (tcp://10.0.0.1:1000)");
    prefill->set_tensors({plain_tensor(0, 0, 10), plain_tensor(0, 1, 10)});
    net.settle();
    decode->seek(2, prefill->address());
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
    EXPECT_EQ(decode->counter(ControlCounter::connections_dialed), 2u);
}

TEST_F(Handshake, the_first_transport_of_the_sender_that_works_is_taken) {
    prefill->load("other");
    prefill->load("fake");
    decode->load("fake");
    decode->load("other");
    for (Node *node : {prefill.get(), decode.get()})
        node->set_tensors({plain_tensor(0, 0, 10)});
    EXPECT_EQ(connect()->transport->name(), "other");
}

class OneSideFails : public ControlTest, public testing::WithParamInterface<std::pair<uint64_t, const char *>> {};

TEST_P(OneSideFails, the_next_transport_is_tried) {
    for (Node *node : {prefill.get(), decode.get()}) {
        node->load("other"); // the first of prefill's and of decode's
        node->load("fake");
        node->set_tensors({plain_tensor(0, 0, 10)});
    }
    // The fake fails for both names alike, so only the first attempt may.
    fake().failures[GetParam()] = KVF_ERR_UNREACHABLE;
    int selects = 0;
    net.on_message = [&](const Node &, const WireMessage &message) {
        if (std::holds_alternative<SelectMessage>(message) && ++selects == 2)
            fake().failures.clear();
        if (const auto *ready = std::get_if<ReadyMessage>(&message); ready != nullptr && !ready->refusals.empty())
            fake().failures.clear();
        return true;
    };
    const LinkRef link = connect();
    ASSERT_NE(link, nullptr);
    EXPECT_EQ(link->transport->name(), "fake");
    EXPECT_EQ(fake().peers, 2);
}

INSTANTIATE_TEST_SUITE_P(Operations, OneSideFails,
                         testing::Values(std::pair<uint64_t, const char *>{2, "peer_create"},
                                         std::pair<uint64_t, const char *>{2, "peer_connect"}));

class NothingWorks : public ControlTest, public testing::WithParamInterface<std::pair<uint64_t, const char *>> {};

TEST_P(NothingWorks, both_sides_hear_why) {
    equip();
    fake().failures[GetParam()] = KVF_ERR_PERMISSION;
    decode->seek(5, prefill->address());
    net.settle();
    const auto refused = decode->take<PeerRefused>();
    EXPECT_EQ(refused.cause.code, KVF_ERR_PERMISSION);
    EXPECT_EQ(refused.cause.sentence, "no transport to prefill-1 (tcp://10.0.0.1:1000): fake: " +
                                          std::string(GetParam().second) + " was told to fail");
    EXPECT_EQ(prefill->take<AbortCame>().cause.sentence, refused.cause.sentence);
    EXPECT_EQ(fake().peers, 0);
    EXPECT_EQ(fake().keys, 0);
}

TEST_P(NothingWorks, what_was_wanting_may_be_there_for_the_next_room) {
    for (const int code : {KVF_ERR_SYSTEM, KVF_ERR_NO_MEMORY, KVF_ERR_PERMISSION}) {
        SCOPED_TRACE(code);
        Node sender(net, prefill_config(10), "tcp://10.0.0.9:1000"), receiver(net, decode_config(20), "");
        for (Node *node : {&sender, &receiver}) {
            node->load("fake");
            node->set_tensors({plain_tensor(0, 0, 10)});
        }
        fake().failures[{GetParam().first * 10, GetParam().second}] = code;
        receiver.seek(5, sender.address());
        net.settle();
        EXPECT_EQ(receiver.take<PeerRefused>().cause.code, code);
        fake().failures.clear();
        receiver.seek(6, sender.address());
        net.settle();
        EXPECT_EQ(receiver.count<PeerFound>(), code == KVF_ERR_PERMISSION ? 0u : 1u);
    }
}

INSTANTIATE_TEST_SUITE_P(Operations, NothingWorks,
                         testing::Values(std::pair<uint64_t, const char *>{1, "peer_create"},
                                         std::pair<uint64_t, const char *>{1, "peer_connect"},
                                         std::pair<uint64_t, const char *>{1, "import_key"},
                                         std::pair<uint64_t, const char *>{2, "peer_create"},
                                         std::pair<uint64_t, const char *>{2, "peer_connect"}));

TEST_F(Handshake, no_transport_in_common_says_who_has_what) {
    prefill->load("fake");
    decode->load("other");
    for (Node *node : {prefill.get(), decode.get()})
        node->set_tensors({plain_tensor(0, 0, 10)});
    decode->seek(1, prefill->address());
    net.settle();
    const auto refused = decode->take<PeerRefused>();
    EXPECT_EQ(refused.cause.code, KVF_ERR_NO_TRANSPORT);
    EXPECT_EQ(refused.cause.sentence,
              "no transport to prefill-1 (tcp://10.0.0.1:1000): fake: not loaded at decode-2 "
              "(tcp://dialer); other: not loaded at prefill-1");
    // Loading one is worth another try.
    decode->load("fake");
    decode->seek(2, prefill->address());
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
}

TEST_F(Handshake, a_transport_loaded_at_the_sender_later_is_worth_another_try) {
    decode->load("fake");
    for (Node *node : {prefill.get(), decode.get()})
        node->set_tensors({plain_tensor(0, 0, 10)});
    decode->seek(1, prefill->address());
    net.settle();
    EXPECT_EQ(decode->count<PeerRefused>(), 1u);
    prefill->load("fake");
    net.settle();
    decode->seek(2, prefill->address());
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
}

TEST_F(Handshake, an_engine_that_dials_itself_is_refused) {
    ControlConfig config = prefill_config(3);
    config.role = KVF_ROLE_BOTH;
    Node both(net, config, "tcp://10.0.0.3:1000");
    both.seek(1, both.address());
    net.settle();
    const auto refused = both.take<PeerRefused>();
    EXPECT_EQ(refused.cause.code, KVF_ERR_INVALID);
    EXPECT_NE(refused.cause.sentence.find("prefill-3 was dialed by itself"), std::string::npos);
    EXPECT_EQ(both.counter(ControlCounter::open_connections), 0u);
}

TEST_F(Handshake, a_peer_of_the_wrong_role_is_refused) {
    Node third(net, decode_config(3), "tcp://10.0.0.3:1000");
    decode->seek(1, third.address());
    net.settle();
    const auto refused = decode->take<PeerRefused>();
    EXPECT_EQ(refused.cause.code, KVF_ERR_INVALID);
    EXPECT_NE(refused.cause.sentence.find("has the role decode, where prefill is needed"), std::string::npos);
}

TEST_F(Handshake, a_peer_of_another_wire_version_is_refused) {
    const uint64_t stranger = net.strange_connection(*prefill);
    HelloMessage hello;
    hello.instance = 99;
    hello.role = KVF_ROLE_DECODE;
    hello.name = "future";
    hello.version_min = 2;
    hello.version_max = 3;
    net.inject(*prefill, stranger, hello);
    EXPECT_EQ(net.sent, std::vector<std::string>{"prefill BYE"});
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 0u);
    hello.version_min = 1;
    hello.required_features = 4;
    net.inject(*prefill, net.strange_connection(*prefill), hello);
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 0u);
}

} // namespace
} // namespace kvf::test
