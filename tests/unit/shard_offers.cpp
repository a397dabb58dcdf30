// Offers that nobody claims, ids that are used again, and words that come too late.
#include "shard_world.h"

namespace kvf {
namespace {

using ShardOfferTest = ShardTest;

uint64_t late(Side &side) {
    return side.shard.counters().late_messages.load();
}

RoomHandle offer(World &world, uint64_t room_id, uint32_t page, size_t decode = 0) {
    const RoomHandle receiver = world.decode(decode).open_receiver(room_id);
    world.decode(decode).accept(receiver, {pages(kKv, {page})});
    world.run();
    return receiver;
}

RoomHandle send(World &world, uint64_t room_id, uint32_t page) {
    const RoomHandle sender = world.prefill().open_sender(room_id);
    world.prefill().send(sender, {pages(kKv, {page})});
    world.run();
    return sender;
}

// A room from open to close, with one page.
void serve(World &world, uint64_t room_id, bool offer_first, uint32_t from, uint32_t to) {
    RoomHandle sender;
    RoomHandle receiver;
    if (offer_first)
        receiver = offer(world, room_id, to);
    sender = send(world, room_id, from);
    if (!offer_first)
        receiver = offer(world, room_id, to);
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_SUCCESS) << world.prefill().message(sender);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_SUCCESS) << world.decode().message(receiver);
    world.expect_arrived(kKv, {from}, {to});
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

// -------------------------------------------------------------------------------------------------------------
// unclaimed

TEST_F(ShardOfferTest, an_offer_that_nobody_claims_is_answered_when_it_is_too_old) {
    World world;
    const RoomHandle receiver = offer(world, 7, 1);
    EXPECT_EQ(world.prefill().shard.counters().open_unclaimed.load(), 1u);
    world.pass(15 * kSecond - 1);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_WAITING);
    EXPECT_EQ(world.prefill().shard.next_deadline(), world.prefill().now + 1);
    world.pass(1);
    EXPECT_EQ(world.decode().code(receiver), KVF_ERR_UNCLAIMED);
    EXPECT_EQ(world.decode().message(receiver),
              "room 7 was not opened on the prefill side; this shard keeps 16 offers in 67108864 bytes for "
              "15000 ms at most");
    EXPECT_TRUE(world.decode().quiesced(receiver));
    EXPECT_EQ(world.prefill().shard.counters().unclaimed_dropped.load(), 1u);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

TEST_F(ShardOfferTest, the_oldest_offer_is_answered_when_there_are_too_many) {
    World world;
    std::vector<RoomHandle> receivers;
    for (uint32_t i = 0; i < 17; ++i)
        receivers.push_back(offer(world, 100 + i, i));
    EXPECT_EQ(world.decode().code(receivers[0]), KVF_ERR_UNCLAIMED);
    EXPECT_EQ(world.prefill().shard.counters().open_unclaimed.load(), 16u);
    for (uint32_t i = 1; i < 17; ++i) {
        EXPECT_EQ(world.decode().state(receivers[i]), KVF_STATE_WAITING);
        world.decode().abort(receivers[i]);
    }
    world.run();
    for (const RoomHandle receiver : receivers)
        EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    // What they left says that the rooms were given up, until it is too old.
    world.pass(15 * kSecond);
    EXPECT_EQ(world.prefill().shard.counters().open_unclaimed.load(), 0u);
}

TEST_F(ShardOfferTest, a_room_claims_its_own_offer) {
    World world;
    const RoomHandle first = offer(world, 7, 1);
    const RoomHandle second = offer(world, 8, 2);
    const RoomHandle sender = send(world, 8, 20);
    EXPECT_EQ(world.decode().state(second), KVF_STATE_SUCCESS);
    EXPECT_EQ(world.decode().state(first), KVF_STATE_WAITING);
    world.expect_arrived(kKv, {20}, {2});
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(second), KVF_OK);
    world.pass(15 * kSecond);
    EXPECT_EQ(world.decode().close(first), KVF_OK);
}

TEST_F(ShardOfferTest, an_offer_that_came_twice_before_the_room_was_opened_is_one_receiver) {
    World world({"memory", "memory"});
    const RoomHandle first = offer(world, 7, 1, 0);
    world.prefill().tell(OfferCame(world.offers.back()));
    const uint64_t before = late(world.prefill());
    const RoomHandle sender = world.prefill().open_sender(7, 2);
    EXPECT_EQ(late(world.prefill()), before + 1);
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_BOOTSTRAPPING);
    const RoomHandle second = offer(world, 7, 2, 1);
    world.prefill().send(sender, {pages(kKv, {3})});
    world.run();
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_SUCCESS) << world.prefill().message(sender);
    world.expect_arrived(kKv, {3}, {1}, 0);
    world.expect_arrived(kKv, {3}, {2}, 1);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode(0).close(first), KVF_OK);
    EXPECT_EQ(world.decode(1).close(second), KVF_OK);
}

TEST_F(ShardOfferTest, a_late_offer_of_a_room_that_failed_is_answered_at_once) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().abort(sender, "preempted");
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    const RoomHandle receiver = offer(world, 7, 1);
    EXPECT_EQ(world.decode().code(receiver), KVF_ERR_PEER_ABORTED);
    EXPECT_EQ(world.decode().message(receiver), "preempted");
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

TEST_F(ShardOfferTest, the_end_of_a_failed_room_answers_no_more_offers_than_it_had_receivers) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().abort(sender);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    const RoomHandle late_one = offer(world, 7, 1);
    EXPECT_EQ(world.decode().close(late_one), KVF_OK);
    serve(world, 7, true, 3, 4);
}

TEST_F(ShardOfferTest, the_end_of_a_failed_room_is_forgotten_when_it_is_too_old) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().abort(sender);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    world.pass(15 * kSecond);
    serve(world, 7, true, 3, 4);
}

TEST_F(ShardOfferTest, the_end_of_a_room_is_not_that_of_the_next_with_its_id) {
    World world;
    const RoomHandle failed = world.prefill().open_sender(7);
    world.prefill().abort(failed);
    // Another thread opens the id anew before this one's close has reached the shard.
    EXPECT_EQ(world.prefill().table.retire(failed), KVF_OK);
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().tell(CloseRoom{failed});
    world.prefill().send(sender, {pages(kKv, {1})});
    const RoomHandle receiver = offer(world, 7, 2);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_SUCCESS);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    serve(world, 7, true, 3, 4);
}

TEST_F(ShardOfferTest, receivers_that_were_answered_while_the_failed_room_was_open_are_answered_once) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().abort(sender);
    const RoomHandle late_one = offer(world, 7, 1);
    EXPECT_EQ(world.decode().code(late_one), KVF_ERR_PEER_ABORTED);
    EXPECT_EQ(world.decode().close(late_one), KVF_OK);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    serve(world, 7, true, 3, 4);
}

TEST_F(ShardOfferTest, the_id_of_a_room_that_its_receiver_gave_up_is_usable_again) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.run();
    world.decode().abort(receiver);
    world.run();
    EXPECT_EQ(world.prefill().code(sender), KVF_ERR_PEER_ABORTED);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    serve(world, 7, true, 3, 4);
}

// --------------------------------------------------------------------------------------------------------- ids used
// again

TEST_F(ShardOfferTest, an_id_is_usable_again_right_after_its_close) {
    World world;
    for (uint32_t i = 0; i < 40; ++i)
        serve(world, 7, i % 2 != 0, i % 32, (i * 5 + 3) % 32);
    EXPECT_EQ(world.prefill().shard.counters().rooms_succeeded.load(), 40u);
    EXPECT_EQ(late(world.prefill()) + late(world.decode()), 0u);
}

TEST_F(ShardOfferTest, decode_may_use_an_id_again_though_prefill_has_not_closed_it) {
    World world;
    const RoomHandle first = offer(world, 7, 1);
    const RoomHandle sender = send(world, 7, 20);
    EXPECT_EQ(world.decode().close(first), KVF_OK);
    const RoomHandle second = offer(world, 7, 2);
    EXPECT_EQ(world.decode().state(second), KVF_STATE_WAITING) << world.decode().message(second);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    const RoomHandle again = send(world, 7, 21);
    EXPECT_EQ(world.decode().state(second), KVF_STATE_SUCCESS);
    world.expect_arrived(kKv, {21}, {2});
    EXPECT_EQ(world.prefill().close(again), KVF_OK);
    EXPECT_EQ(world.decode().close(second), KVF_OK);
}

TEST_F(ShardOfferTest, decode_may_try_a_failed_room_again_though_prefill_has_not_closed_it) {
    World world;
    const RoomHandle first = offer(world, 7, 1);
    const RoomHandle sender = world.prefill().open_sender(7);
    world.run();
    world.prefill().abort(sender);
    world.run();
    EXPECT_EQ(world.decode().close(first), KVF_OK);
    const RoomHandle second = offer(world, 7, 2);
    EXPECT_EQ(world.decode().state(second), KVF_STATE_WAITING) << world.decode().message(second);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    const RoomHandle again = send(world, 7, 21);
    EXPECT_EQ(world.decode().state(second), KVF_STATE_SUCCESS);
    EXPECT_EQ(world.prefill().close(again), KVF_OK);
    EXPECT_EQ(world.decode().close(second), KVF_OK);
}

TEST_F(ShardOfferTest, a_room_given_up_before_the_one_with_its_id_is_closed_fails_the_next) {
    World world;
    const RoomHandle first = offer(world, 7, 1);
    const RoomHandle sender = send(world, 7, 20);
    EXPECT_EQ(world.decode().close(first), KVF_OK);
    for (const bool offered : {true, false}) {
        const RoomHandle second = world.decode().open_receiver(7);
        if (offered)
            world.decode().accept(second, {pages(kKv, {2})});
        world.run();
        world.decode().abort(second, "disconnected");
        world.run();
        EXPECT_TRUE(world.decode().quiesced(second));
        EXPECT_EQ(world.decode().close(second), KVF_OK);
    }
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_SUCCESS);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    const RoomHandle next = world.prefill().open_sender(7);
    EXPECT_EQ(world.prefill().code(next), KVF_ERR_PEER_ABORTED);
    EXPECT_EQ(world.prefill().close(next), KVF_OK);
}

// --------------------------------------------------------------------------------------------------------------- too
// late

TEST_F(ShardOfferTest, late_success_of_an_old_generation_is_dropped) {
    World world;
    serve(world, 7, true, 1, 2);
    const RoomHandle receiver = offer(world, 7, 3);
    ASSERT_FALSE(world.news.empty());
    for (const NewsCame &old : world.news)
        world.decode().tell(NewsCame(old));
    EXPECT_EQ(late(world.decode()), world.news.size());
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_WAITING);
    const RoomHandle sender = send(world, 7, 4);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_SUCCESS);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

TEST_F(ShardOfferTest, news_that_is_not_for_this_room_is_dropped_and_counted) {
    World world({"memory", "memory"});
    const RoomHandle receiver = offer(world, 7, 3);
    const NewsCame success{world.link_at_decode()->id, 7, receiver.value, {RoomNews::kSuccess, true, {}, 0, 0}};
    NewsCame other_room = success;
    other_room.room_id = 8;
    NewsCame other_link = success;
    other_link.link = world.link_at_decode(1)->id;
    NewsCame other_receiver = success;
    other_receiver.receiver = 12345;
    for (const NewsCame &news : {other_room, other_link, other_receiver})
        world.decode().tell(NewsCame(news));
    EXPECT_EQ(late(world.decode()), 3u);
    world.decode().tell(DrainedCame{world.prefill().instance, 8, receiver.value});
    world.decode().tell(DrainedCame{world.prefill().instance, 7, receiver.value});
    EXPECT_EQ(late(world.decode()), 5u);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_WAITING);
    world.decode().tell(NewsCame(success));
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_SUCCESS);
    world.decode().tell(NewsCame(success));
    EXPECT_EQ(late(world.decode()), 6u);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    world.pass(15 * kSecond);
}

TEST_F(ShardOfferTest, news_of_a_room_that_offered_nothing_is_dropped) {
    World world;
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.run();
    world.decode().tell(NewsCame{world.link_at_decode()->id, 7, receiver.value, {RoomNews::kSuccess, true, {}, 0, 0}});
    EXPECT_EQ(late(world.decode()), 1u);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_WAITING);
    world.decode().abort(receiver);
    world.run();
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    world.pass(15 * kSecond);
}

TEST_F(ShardOfferTest, a_late_abort_of_an_old_generation_is_dropped_and_answered) {
    World world;
    const RoomHandle first = offer(world, 7, 1);
    const RoomHandle failed = world.prefill().open_sender(7);
    world.run();
    world.decode().abort(first);
    world.run();
    EXPECT_EQ(world.prefill().close(failed), KVF_OK);
    EXPECT_EQ(world.decode().close(first), KVF_OK);
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = offer(world, 7, 2);
    ASSERT_EQ(world.aborts.size(), 1u);
    AbortCame again = world.aborts.front();
    again.connection = 0; // so that it is not answered twice
    world.prefill().tell(std::move(again));
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_WAITING);
    world.prefill().send(sender, {pages(kKv, {5})});
    world.run();
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_SUCCESS);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

} // namespace
} // namespace kvf
