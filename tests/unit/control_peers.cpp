// Peers that die, fall silent and come back; links and their fences; what changes while they are connected.
#include "control_harness.h"

namespace kvf::test {
namespace {

using Peers = ControlTest;

// ----------------------------------------------------------------------------------------------------------- messages

TEST_F(Peers, rooms_messages_reach_the_other_side) {
    equip();
    const LinkRef link = connect();
    decode->control().handle(SendOffer{link, 42, RoomHandle{7}, 16, {{0, {5, 6, 9}}}});
    net.settle();
    auto offer = prefill->take<OfferCame>();
    EXPECT_EQ(offer.room_id, 42u);
    EXPECT_EQ(offer.receiver, 7u);
    EXPECT_EQ(offer.prefix_tokens, 16u);
    ASSERT_EQ(offer.lists.size(), 1u);
    EXPECT_EQ(offer.lists[0], PageRuns(0, {5, 6, 9}));
    const GroupRoute *group = offer.routes->find(0);
    ASSERT_NE(group, nullptr);
    ASSERT_EQ(group->tensors.size(), 2u);
    EXPECT_EQ(group->tensors[1].layer, 1u);
    EXPECT_EQ(group->tensors[1].page_bytes(), 4096u);
    EXPECT_EQ(group->remote_pages, 100u);

    RoomNews news;
    news.kind = RoomNews::kSuccess;
    news.bytes = 12;
    prefill->control().handle(SendNews{offer.link, 42, 7, news});
    prefill->control().handle(SendDrained{offer.link->id, 42, 7});
    net.settle();
    const auto came = decode->take<NewsCame>();
    EXPECT_EQ(came.link, link->id);
    EXPECT_EQ(came.receiver, 7u);
    EXPECT_EQ(came.news.bytes, 12u);
    EXPECT_EQ(decode->take<DrainedCame>().room_id, 42u);

    decode->control().handle(SendAbort{link, 42, RoomHandle{7}, true, {KVF_ERR_ABORTED, 2, "enough"}});
    net.settle();
    const auto abort = prefill->take<AbortCame>();
    EXPECT_EQ(abort.connection, offer.link->id);
    EXPECT_TRUE(abort.offered);
    EXPECT_EQ(abort.cause.sentence, "enough");
}

TEST_F(Peers, an_offer_that_does_not_fit_fails_its_room_alone_on_both_sides) {
    equip();
    const LinkRef link = connect();
    PageRuns list;
    for (uint32_t page = 0; page < 5'000'000; ++page)
        list.append(2 * page, 1);
    decode->control().handle(SendOffer{link, 42, RoomHandle{7}, 0, {list}});
    const auto news = decode->take<NewsCame>();
    EXPECT_EQ(news.news.kind, RoomNews::kFailed);
    EXPECT_TRUE(news.news.drained);
    EXPECT_EQ(news.news.cause.code, KVF_ERR_UNSUPPORTED);
    EXPECT_EQ(decode->counter(ControlCounter::open_connections), 1u);
    net.settle();
    const auto abort = prefill->take<AbortCame>();
    EXPECT_EQ(abort.room_id, 42u);
    EXPECT_EQ(abort.receiver, 7u);
    EXPECT_FALSE(abort.offered);
    EXPECT_EQ(abort.cause.sentence, news.news.cause.sentence);
}

TEST_F(Peers, a_forgotten_seek_is_told_to_a_peer_that_is_there) {
    prefill->load("fake");
    decode->load("fake");
    decode->seek(1, prefill->address());
    net.settle(); // waits for tensors
    decode->control().handle(ForgetPeer{RoomHandle{1}, 1, {KVF_ERR_ABORTED, 2, "enough"}});
    net.settle();
    const auto abort = prefill->take<AbortCame>();
    EXPECT_EQ(abort.room_id, 1u);
    EXPECT_FALSE(abort.offered);
    for (Node *node : {prefill.get(), decode.get()})
        node->set_tensors({plain_tensor(0, 0, 10)});
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 0u);
}

TEST_F(Peers, a_seek_forgotten_while_dialing_is_told_once_the_peer_is_there) {
    equip();
    decode->seek(1, prefill->address());
    decode->control().handle(ForgetPeer{RoomHandle{1}, 1, {KVF_ERR_ABORTED, 2, "enough"}});
    net.settle();
    EXPECT_EQ(prefill->take<AbortCame>().cause.sentence, "enough");
}

// ---------------------------------------------------------------------------------------------------------- their end

class DiesAfter : public ControlTest, public testing::WithParamInterface<int> {};

TEST_P(DiesAfter, that_many_messages_and_the_room_finds_it_all_the_same) {
    equip();
    int left = GetParam();
    bool dead = false;
    net.on_message = [&](const Node &, const WireMessage &) {
        if (left-- == 0)
            dead = true;
        return !dead;
    };
    decode->seek(1, prefill->address());
    for (int i = 0; i < 1000 && !dead && net.step(); ++i) {
    }
    net.settle();
    ASSERT_TRUE(dead);
    net.on_message = nullptr;
    for (const uint64_t connection : prefill->open_connections())
        net.cut(*prefill, connection);
    net.settle();
    net.advance_ms(3000);
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
    decode->shards.clear();
    prefill->shards.clear();
    net.settle();
    EXPECT_EQ(fake().peers, 2);
}

INSTANTIATE_TEST_SUITE_P(Messages, DiesAfter, testing::Range(0, 9));

// A frame that takes longer than a peer may be silent.
TEST_F(Peers, part_of_a_frame_is_a_sign_of_life) {
    equip();
    const uint64_t id = net.strange_connection(*prefill);
    HelloMessage hello;
    hello.instance = 99;
    hello.role = KVF_ROLE_DECODE;
    net.inject(*prefill, id, hello);
    std::vector<uint8_t> frame(1000);
    frame[1] = 0x10; // 4096 bytes are to come
    for (int i = 0; i < 10; ++i) {
        net.inject(*prefill, id, std::vector<uint8_t>(frame.begin(), frame.begin() + (i == 0 ? 4 : 1)));
        net.advance_ms(9'000);
        ASSERT_EQ(prefill->counter(ControlCounter::open_connections), 1u) << i;
    }
    net.advance_ms(20'000);
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 0u);
}

TEST_F(Peers, a_lost_connection_is_told_to_every_shard_and_then_fenced) {
    equip();
    const LinkRef link = connect();
    net.cut(*prefill, prefill->open_connections()[0]);
    net.settle();
    EXPECT_EQ(decode->count<LinkLost>(), 2u);
    const auto lost = decode->take<LinkLost>();
    EXPECT_EQ(lost.link, link);
    EXPECT_EQ(lost.cause.code, KVF_ERR_PEER_LOST);
    EXPECT_EQ(lost.cause.rank, 1);
    EXPECT_EQ(lost.cause.sentence, "connection to prefill-1 (tcp://10.0.0.1:1000) lost: the peer closed it");
    EXPECT_EQ(decode->count<LinkFenced>(), 2u);
    EXPECT_EQ(decode->take<LinkFenced>().link, link->id);
    // What is still sent on it is dropped.
    decode->control().handle(SendOffer{link, 1, RoomHandle{1}, 0, {}});
    EXPECT_EQ(decode->counter(ControlCounter::messages_dropped), 1u);
    // Later rooms dial at once.
    decode->seek(2, prefill->address());
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
}

TEST_F(Peers, a_fence_is_asked_for_until_it_holds) {
    equip();
    LinkRef link = connect();
    fake().failures[{2, "fence"}] = KVF_ERR_BUSY;
    net.cut(*prefill, prefill->open_connections()[0]);
    net.settle();
    EXPECT_EQ(decode->count<LinkFenced>(), 0u);
    net.advance_ms(10'000);
    EXPECT_EQ(decode->count<LinkFenced>(), 0u);
    EXPECT_LT(fake().fences, 40); // with growing pauses
    fake().failures.clear();
    net.advance_ms(1100);
    EXPECT_EQ(decode->count<LinkFenced>(), 2u);
}

TEST_F(Peers, a_fence_is_not_asked_for_when_nobody_holds_the_link) {
    equip();
    LinkRef link = connect();
    fake().failures[{2, "fence"}] = KVF_ERR_BUSY;
    net.cut(*prefill, prefill->open_connections()[0]);
    decode->shards.clear();
    net.settle();
    decode->shards.clear();
    prefill->shards.clear();
    link.reset();
    net.settle();
    EXPECT_EQ(fake().peers, 0); // ended with the last reference
    const int fences = fake().fences;
    net.advance_ms(5000);
    EXPECT_EQ(fake().fences, fences);
}

TEST_F(Peers, a_transport_without_fences_is_asked_once) {
    equip();
    const LinkRef link = connect();
    fake().failures[{2, "fence"}] = KVF_ERR_UNSUPPORTED;
    net.cut(*prefill, prefill->open_connections()[0]);
    net.settle();
    net.advance_ms(5000);
    EXPECT_EQ(fake().fences, 2); // one of each side
}

TEST_F(Peers, a_peer_that_answers_is_kept_and_a_silent_one_is_lost_after_two_misses) {
    equip();
    const LinkRef link = connect();
    net.advance_ms(60'000);
    EXPECT_EQ(decode->count<LinkLost>(), 0u);
    EXPECT_EQ(decode->counter(ControlCounter::heartbeats_missed), 0u);
    net.on_message = [&](const Node &from, const WireMessage &) { return &from != prefill.get(); };
    net.advance_ms(16'000);
    EXPECT_EQ(decode->count<LinkLost>(), 2u);
    const auto lost = decode->take<LinkLost>();
    EXPECT_EQ(lost.cause.code, KVF_ERR_PEER_SILENT);
    EXPECT_EQ(decode->counter(ControlCounter::heartbeats_missed), 2u);
}

TEST_F(Peers, a_peer_that_falls_silent_right_after_the_handshake_is_lost_as_soon_as_any_other) {
    equip();
    const LinkRef link = connect();
    net.on_message = [](const Node &, const WireMessage &) { return false; };
    net.advance_ms(16'000);
    for (Node *node : {prefill.get(), decode.get()}) {
        EXPECT_EQ(node->count<LinkLost>(), 2u) << node->config().name;
        EXPECT_EQ(node->take<LinkLost>().cause.code, KVF_ERR_PEER_SILENT) << node->config().name;
    }
}

TEST_F(Peers, a_clock_that_jumps_loses_nobody) {
    equip();
    const LinkRef link = connect();
    net.now += 3600'000 * kNanosPerMilli; // the process was stopped for an hour
    for (int i = 0; i < 10; ++i) {
        net.now += 1;
        for (Node *node : {prefill.get(), decode.get()})
            node->control().tick(net.now);
    }
    net.settle();
    EXPECT_EQ(decode->count<LinkLost>(), 0u);
    EXPECT_EQ(prefill->count<LinkLost>(), 0u);
}

TEST_F(Peers, nobody_listening_is_tried_again_and_said_once) {
    decode->load("fake");
    decode->set_tensors({plain_tensor(0, 0, 10)});
    decode->seek(1, "tcp://10.0.0.5:1000");
    net.advance_ms(10'000);
    EXPECT_EQ(decode->count<PeerDelayed>(), 1u);
    EXPECT_EQ(decode->take<PeerDelayed>().why, "tcp://10.0.0.5:1000: nobody listens");
    EXPECT_GE(decode->counter(ControlCounter::connections_failed), 5u);
    EXPECT_LE(decode->counter(ControlCounter::connections_failed), 16u);
    Node late(net, prefill_config(5), "tcp://10.0.0.5:1000");
    late.load("fake");
    late.set_tensors({plain_tensor(0, 0, 10)});
    net.advance_ms(2500);
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
    decode->shards.clear();
}

TEST_F(Peers, a_restarted_engine_is_another_one) {
    equip();
    const LinkRef old = connect();
    prefill->shards.clear();
    prefill.reset();
    net.settle();
    EXPECT_EQ(decode->count<LinkLost>(), 2u);
    prefill = std::make_unique<Node>(net, prefill_config(11), "tcp://10.0.0.1:1000");
    prefill->load("fake");
    prefill->set_tensors({plain_tensor(0, 0, 100), plain_tensor(0, 1, 100)});
    const LinkRef fresh = connect(2);
    EXPECT_EQ(fresh->instance, 11u);
    EXPECT_NE(fresh->id, old->id);
}

TEST_F(Peers, a_closing_engine_tells_its_peers_and_its_rooms) {
    equip();
    const LinkRef link = connect();
    prefill->control().shutdown({KVF_ERR_CLOSED, 1, ""});
    net.settle();
    const auto lost = decode->take<LinkLost>();
    EXPECT_EQ(lost.cause.code, KVF_ERR_PEER_CLOSED);
    EXPECT_EQ(lost.cause.sentence, "prefill-1 (tcp://10.0.0.1:1000): engine prefill-1 was closed");

    decode->seek(2, "tcp://10.0.0.7:1000");
    decode->control().shutdown({KVF_ERR_CLOSED, 2, "going"});
    EXPECT_EQ(decode->take<PeerRefused>().cause.sentence, "going");
    decode->seek(3, prefill->address());
    EXPECT_EQ(decode->take<PeerRefused>().cause.code, KVF_ERR_CLOSED);
}

TEST_F(Peers, links_end_also_after_control_has) {
    equip();
    LinkRef link = connect();
    decode->shards.clear();
    decode->control().end();
    EXPECT_EQ(fake().peers, 2);
    link.reset();
    EXPECT_EQ(fake().peers, 1); // prefill's
}

// --------------------------------------------------------------------------------------------- changes while it runs

TEST_F(Peers, tensors_registered_later_reach_rooms_that_begin_later) {
    equip();
    const LinkRef link = connect();
    decode->control().handle(SendOffer{link, 1, RoomHandle{1}, 0, {{0, {1}}}});
    net.settle();
    const auto before = prefill->take<OfferCame>();
    EXPECT_EQ(before.routes->find(3), nullptr);
    for (Node *node : {decode.get(), prefill.get()}) {
        node->set_tensors({plain_tensor(0, 0, 100), plain_tensor(0, 1, 100), plain_tensor(3, 0, 5)});
        net.settle();
        // In between nothing fails.
        decode->control().handle(SendOffer{link, 2, RoomHandle{2}, 0, {{0, {1}}}});
        net.settle();
        EXPECT_EQ(prefill->count<OfferCame>(), 1u);
        EXPECT_NE(prefill->take<OfferCame>().routes->find(0), nullptr);
    }
    decode->control().handle(SendOffer{link, 3, RoomHandle{3}, 0, {{3, {4}}}});
    net.settle();
    const auto after = prefill->take<OfferCame>();
    ASSERT_NE(after.routes->find(3), nullptr);
    EXPECT_EQ(after.routes->find(3)->remote_pages, 5u);
    EXPECT_NE(before.routes->find(0), nullptr); // still good for the old room
    EXPECT_EQ(decode->count<LinkLost>(), 0u);
}

TEST_F(Peers, a_dialer_that_does_not_end_an_unused_connection_holds_no_transport) {
    equip();
    (void)connect();
    decode->shards.clear();
    net.on_message = [](const Node &, const WireMessage &message) {
        return !std::holds_alternative<ByeMessage>(message);
    };
    prefill->unload("fake");
    net.advance_ms(1'900);
    EXPECT_EQ(prefill->control().peers_of("fake"), 1u);
    net.advance_ms(200);
    prefill->shards.clear(); // which were told of the link's end
    net.settle();
    EXPECT_EQ(prefill->control().peers_of("fake"), 0u);
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 0u);
}

TEST_F(Peers, a_room_holds_an_unloaded_transport_longer_than_the_dialer_is_given) {
    equip();
    const LinkRef link = connect();
    decode->control().handle(SendOffer{link, 42, RoomHandle{7}, 0, {{0, {5}}}});
    net.settle();
    auto offer = prefill->take<OfferCame>();
    prefill->unload("fake");
    net.advance_ms(10'000);
    EXPECT_EQ(prefill->control().peers_of("fake"), 1u);
    offer = {};
    decode->shards.clear();
}

TEST_F(Peers, an_unloaded_transport_is_left_when_its_rooms_have_ended) {
    for (Node *node : {prefill.get(), decode.get()}) {
        node->load("fake");
        node->load("other");
        node->set_tensors({plain_tensor(0, 0, 10)});
    }
    for (Node *node : {prefill.get(), decode.get()}) {
        const std::string first = node == prefill.get() ? "fake" : "other";
        LinkRef link = connect(1);
        EXPECT_EQ(link->transport->name(), first);
        node->unload(first);
        net.settle();
        // New rooms use another one, the old ones go on.
        decode->seek(2, prefill->address());
        net.settle();
        if (node == prefill.get()) {
            EXPECT_EQ(decode->take<PeerFound>().link->transport->name(), "other");
        } else {
            EXPECT_EQ(decode->take<PeerRefused>().cause.code, KVF_ERR_NO_TRANSPORT);
        }
        net.advance_ms(1000);
        EXPECT_EQ(decode->count<LinkLost>(), 0u);
        EXPECT_EQ(node->control().peers_of(first), 1u);
        link.reset();
        net.advance_ms(1000);
        decode->shards.clear();
        prefill->shards.clear();
        net.settle();
        EXPECT_EQ(prefill->control().peers_of(first), 0u);
        EXPECT_EQ(decode->control().peers_of(first), 0u);
    }
}

} // namespace
} // namespace kvf::test
