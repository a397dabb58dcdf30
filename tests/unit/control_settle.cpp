// Rooms whose link was lost: the engine behind it is asked until it says that nothing of them is in flight.
#include "control_fake_transport.h"
#include "control_harness.h"

#include <gtest/gtest.h>

namespace kvf::test {
namespace {

constexpr uint64_t kRoom = 42, kReceiver = 7;
const Cause kWhy{KVF_ERR_PEER_LOST, 1, "the connection is gone"};

class Settle : public ControlTest {
  protected:
    // A room's link, which its shard holds.
    void SetUp() override {
        equip();
        link_ = connect();
    }

    void lose() {
        net.cut(*prefill, prefill->open_connections()[0]);
        net.settle();
    }

    void ask() { decode->control().handle(SettleRoom{link_, kRoom, RoomHandle{kReceiver}, kWhy}); }

    // Prefill's shard is asked, and answers.
    void expect_asked_and_answer() {
        const auto abort = prefill->take<AbortCame>();
        EXPECT_EQ(abort.room_id, kRoom);
        EXPECT_EQ(abort.receiver, kReceiver);
        EXPECT_EQ(abort.instance, 2u);
        EXPECT_TRUE(abort.offered);
        EXPECT_EQ(abort.cause.sentence, kWhy.sentence);
        prefill->control().handle(SendDrained{abort.connection, abort.room_id, abort.receiver});
        net.settle();
        const auto drained = decode->take<DrainedCame>();
        EXPECT_EQ(drained.instance, 1u);
        EXPECT_EQ(drained.room_id, kRoom);
        EXPECT_EQ(drained.receiver, kReceiver);
        EXPECT_EQ(decode->counter(ControlCounter::open_settles), 0u);
    }

    LinkRef link_;
};

TEST_F(Settle, the_peer_is_asked_on_the_next_connection) {
    lose();
    ask();
    EXPECT_EQ(decode->counter(ControlCounter::open_settles), 1u);
    net.settle();
    net.advance_ms(1000);
    expect_asked_and_answer();
}

TEST_F(Settle, a_connection_that_stands_already_is_used) {
    lose();
    decode->seek(2, prefill->address());
    net.settle();
    net.advance_ms(1000);
    ASSERT_EQ(decode->count<PeerFound>(), 1u);
    ask();
    net.settle();
    expect_asked_and_answer();
    EXPECT_EQ(decode->counter(ControlCounter::connections_dialed), 2u);
}

TEST_F(Settle, a_connection_over_which_no_rooms_can_begin_will_do) {
    decode->load("other");
    decode->unload("fake");
    lose();
    ask();
    net.settle();
    net.advance_ms(1000);
    EXPECT_EQ(decode->counter(ControlCounter::handshakes_refused), 1u);
    expect_asked_and_answer();
}

TEST_F(Settle, a_connection_that_breaks_before_the_answer_is_not_the_last) {
    lose();
    ask();
    net.settle();
    net.advance_ms(1000);
    ASSERT_EQ(prefill->count<AbortCame>(), 1u);
    const auto unanswered = prefill->take<AbortCame>();
    lose();
    // The answer to a connection that is gone is dropped.
    prefill->control().handle(SendDrained{unanswered.connection, kRoom, kReceiver});
    EXPECT_EQ(prefill->counter(ControlCounter::messages_dropped), 1u);
    net.advance_ms(3000);
    expect_asked_and_answer();
}

TEST_F(Settle, another_engine_at_the_same_address_is_not_asked) {
    prefill = nullptr;
    net.settle();
    prefill = std::make_unique<Node>(net, prefill_config(11), "tcp://10.0.0.1:1000");
    prefill->load("fake");
    prefill->set_tensors({plain_tensor(0, 0, 100), plain_tensor(0, 1, 100)});
    ask();
    net.settle();
    net.advance_ms(3000);
    EXPECT_EQ(prefill->count<AbortCame>(), 0u);
    EXPECT_EQ(decode->counter(ControlCounter::open_settles), 0u);
}

TEST_F(Settle, a_fenced_room_is_not_asked_for_any_more) {
    lose();
    ask();
    decode->control().handle(ForgetPeer{RoomHandle{kReceiver}, kRoom, kWhy, false});
    EXPECT_EQ(decode->counter(ControlCounter::open_settles), 0u);
    net.settle();
    net.advance_ms(3000);
    EXPECT_EQ(prefill->count<AbortCame>(), 0u);
}

// An offer may lie unread in it, which must not be acted on once the receiver was told that nothing is in flight.
TEST_F(Settle, a_connection_that_only_the_peer_has_lost_ends_before_the_answer) {
    net.forget(*decode, link_->id);
    decode->control().closed(link_->id, Status(KVF_ERR_PEER_LOST, "reset"));
    ASSERT_EQ(prefill->counter(ControlCounter::open_connections), 1u);
    prefill->shards.clear();
    ask();
    net.settle();
    net.advance_ms(1000);
    ASSERT_FALSE(prefill->shards.empty());
    EXPECT_TRUE(std::holds_alternative<LinkLost>(prefill->shards.front()));
    EXPECT_EQ(prefill->count<LinkLost>(), 2u);
    expect_asked_and_answer();
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 1u);
}

TEST_F(Settle, of_a_stranger_ends_no_connection_of_another) {
    const uint64_t theirs = prefill->open_connections()[0];
    const uint64_t id = net.strange_connection(*prefill);
    HelloMessage hello;
    hello.instance = 99;
    hello.role = KVF_ROLE_DECODE;
    hello.name = "stranger";
    net.inject(*prefill, id, hello);
    net.inject(*prefill, id, AbortMessage{kRoom, kReceiver, true, kWhy, theirs});
    EXPECT_EQ(prefill->counter(ControlCounter::open_connections), 2u);
    EXPECT_EQ(prefill->count<LinkLost>(), 0u);
    EXPECT_EQ(prefill->take<AbortCame>().instance, 99u);
}

} // namespace
} // namespace kvf::test
