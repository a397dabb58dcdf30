// Peers that are lost, fenced, refused; transports that leave; an engine that closes.
#include "shard_world.h"

namespace kvf {
namespace {

using ShardLinkTest = ShardTest;

constexpr uint32_t kPagesSent = 3;

// A room of three pages with decode side `decode`.
struct Room {
    RoomHandle sender, receiver;
};

Room begin(World &world, uint64_t room_id, size_t decode = 0) {
    Room room{world.prefill().open_sender(room_id), world.decode(decode).open_receiver(room_id)};
    world.decode(decode).accept(room.receiver, {pages(kKv, range(static_cast<uint32_t>(room_id), kPagesSent))});
    world.prefill().send(room.sender, {pages(kKv, range(0, kPagesSent))});
    return room;
}

void close(World &world, const Room &room, size_t decode = 0) {
    EXPECT_EQ(world.prefill().close(room.sender), KVF_OK);
    EXPECT_EQ(world.decode(decode).close(room.receiver), KVF_OK);
}

// ------------------------------------------------------------------------------------------------------------------
// lost

TEST_F(ShardLinkTest, a_lost_peer_fails_its_rooms_and_no_others) {
    World world({"fault+memory?never=1", "memory?slow=10"});
    const Room lost = begin(world, 7, 0);
    const Room kept = begin(world, 8, 1);
    world.run(0);
    world.lose(0);
    world.run();
    for (Side *side : {&world.prefill(), &world.decode(0)}) {
        const RoomHandle room = side == &world.prefill() ? lost.sender : lost.receiver;
        EXPECT_EQ(side->code(room), KVF_ERR_PEER_LOST);
        EXPECT_EQ(side->message(room), "the connection is gone");
        EXPECT_TRUE(side->quiesced(room));
    }
    EXPECT_EQ(world.told(lost.receiver, 0), 0);
    EXPECT_EQ(world.decode(1).state(kept.receiver), KVF_STATE_SUCCESS);
    close(world, lost, 0);
    close(world, kept, 1);
}

// Control asks for the fence as soon as it has told the shards of the loss, which may not have come to that yet.
TEST_F(ShardLinkTest, what_the_fence_of_a_lost_peer_breaks_fails_for_the_loss) {
    World world({"memory?slow=1000"});
    const Room in_flight = begin(world, 7);
    const Room to_post{world.prefill().open_sender(8), world.decode().open_receiver(8)};
    world.decode().accept(to_post.receiver, {pages(kKv, {20})});
    world.run(0);
    const LinkRef link = world.link_at_prefill();
    link->lose();
    EXPECT_TRUE(link->transport->fence(link->peer).ok());
    world.prefill().send(to_post.sender, {pages(kKv, {9})});
    world.run(4);
    EXPECT_EQ(world.prefill().shard.counters().open_operations.load(), 0u);
    EXPECT_EQ(world.prefill().state(in_flight.sender), KVF_STATE_TRANSFERRING);
    EXPECT_EQ(world.prefill().state(to_post.sender), KVF_STATE_WAITING);
    world.lose(0);
    for (const Room &room : {in_flight, to_post}) {
        EXPECT_EQ(world.prefill().code(room.sender), KVF_ERR_PEER_LOST);
        EXPECT_EQ(world.prefill().message(room.sender), "the connection is gone");
        EXPECT_TRUE(world.prefill().quiesced(room.sender));
        close(world, room);
    }
}

TEST_F(ShardLinkTest, pages_offered_to_a_lost_peer_are_free_when_its_fence_holds) {
    World world({"memory?slow=1000"});
    const Room room = begin(world, 7);
    world.run(0);
    world.lose(0, false);
    EXPECT_EQ(world.decode().code(room.receiver), KVF_ERR_PEER_LOST);
    EXPECT_FALSE(world.decode().quiesced(room.receiver));
    EXPECT_EQ(world.decode().close(room.receiver), KVF_ERR_BUSY);
    EXPECT_FALSE(world.prefill().quiesced(room.sender));
    world.run();
    // Its writes in flight could be cancelled; what the peer's engine may write into decode's pages could not.
    EXPECT_TRUE(world.prefill().quiesced(room.sender));
    EXPECT_FALSE(world.decode().quiesced(room.receiver));
    world.fence(0);
    EXPECT_TRUE(world.decode().quiesced(room.receiver));
    close(world, room);
}

TEST_F(ShardLinkTest, writes_that_can_not_be_cancelled_end_by_the_fence) {
    World world({"fenced?slow=100000"});
    const Room room = begin(world, 7);
    world.run(0);
    world.lose(0, false);
    world.run();
    EXPECT_FALSE(world.prefill().quiesced(room.sender));
    world.fence(0);
    world.run();
    EXPECT_TRUE(world.prefill().quiesced(room.sender));
    EXPECT_TRUE(world.decode().quiesced(room.receiver));
    close(world, room);
}

TEST_F(ShardLinkTest, a_room_that_has_offered_nothing_is_quiesced_with_its_peers_loss) {
    World world;
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.run();
    world.lose(0, false);
    EXPECT_EQ(world.decode().code(receiver), KVF_ERR_PEER_LOST);
    EXPECT_TRUE(world.decode().quiesced(receiver));
    world.fence(0);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

TEST_F(ShardLinkTest, a_room_that_waits_for_prefills_answer_is_quiesced_by_the_fence_when_prefill_is_lost) {
    for (const bool accepted : {true, false}) {
        World world;
        const RoomHandle receiver = world.decode().open_receiver(7);
        world.run();
        if (accepted)
            world.decode().accept(receiver, {pages(kKv, {1})});
        world.run();
        world.decode().abort(receiver);
        world.lose(0, false);
        EXPECT_EQ(world.decode().code(receiver), KVF_ERR_ABORTED);
        EXPECT_EQ(world.decode().quiesced(receiver), !accepted);
        world.fence(0);
        EXPECT_TRUE(world.decode().quiesced(receiver));
        EXPECT_EQ(world.decode().close(receiver), KVF_OK);
        world.pass(15 * kSecond); // until prefill forgets the offer
    }
}

TEST_F(ShardLinkTest, the_loss_of_one_receiver_is_told_to_the_other) {
    World world({"memory?slow=50", "memory?slow=50"});
    const RoomHandle sender = world.prefill().open_sender(7, 2);
    const RoomHandle first = world.decode(0).open_receiver(7);
    const RoomHandle second = world.decode(1).open_receiver(7);
    world.decode(0).accept(first, {pages(kKv, range(0, 4))});
    world.decode(1).accept(second, {pages(kKv, range(0, 4))});
    world.prefill().send(sender, {pages(kKv, range(0, 4))});
    world.run(0);
    world.lose(0);
    world.run(200);
    EXPECT_EQ(world.prefill().code(sender), KVF_ERR_PEER_LOST);
    EXPECT_EQ(world.decode(1).code(second), KVF_ERR_PEER_LOST);
    EXPECT_EQ(world.told(first, 0), 0);
    EXPECT_EQ(world.told(second, 1), 1);
    EXPECT_TRUE(world.prefill().quiesced(sender));
    EXPECT_TRUE(world.decode(0).quiesced(first));
    EXPECT_TRUE(world.decode(1).quiesced(second));
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode(0).close(first), KVF_OK);
    EXPECT_EQ(world.decode(1).close(second), KVF_OK);
}

TEST_F(ShardLinkTest, a_peer_that_comes_back_serves_the_same_ids_at_once) {
    World world({"modest?slow=200"});
    const Room lost = begin(world, 7);
    world.run(0);
    world.decode().close_deferred(lost.receiver);
    world.prefill().close_deferred(lost.sender);
    const LinkRef old_at_prefill = world.link_at_prefill();
    const LinkRef old_at_decode = world.link_at_decode();
    world.lose(0, false);
    world.run(300);
    EXPECT_TRUE(world.prefill().stale(lost.sender));
    // This transport has no fence, so decode has to ask whether something is in flight still.
    EXPECT_FALSE(world.decode().stale(lost.receiver));
    world.connect(0);
    world.find();
    world.run();
    EXPECT_TRUE(world.decode().stale(lost.receiver));
    const Room room = begin(world, 7);
    world.run(300);
    EXPECT_EQ(world.prefill().state(room.sender), KVF_STATE_SUCCESS);
    // Words of the old connection are nobody's.
    world.decode().tell(
        NewsCame{old_at_decode->id, 7, room.receiver.value, {RoomNews::kFailed, true, {KVF_ERR_ABORTED, 0, ""}, 0, 0}});
    EXPECT_EQ(world.decode().state(room.receiver), KVF_STATE_SUCCESS);
    close(world, room);
}

TEST_F(ShardLinkTest, a_peer_that_is_known_is_not_sought_again_until_its_link_goes) {
    World world;
    world.lasting = true;
    const auto opened = [&](uint64_t room_id) {
        const RoomHandle receiver = world.decode().open_receiver(room_id);
        const bool known = world.decode().state(receiver) == KVF_STATE_WAITING;
        world.run();
        EXPECT_EQ(world.decode().state(receiver), KVF_STATE_WAITING);
        world.decode().abort(receiver);
        world.run();
        EXPECT_EQ(world.decode().close(receiver), KVF_OK);
        return known;
    };
    EXPECT_FALSE(opened(1));
    EXPECT_TRUE(opened(2));
    world.decode().tell(LinkRetired{world.link_at_decode()->id});
    EXPECT_FALSE(opened(3));
    EXPECT_TRUE(opened(4));
    world.lose(0);
    world.connect(0);
    EXPECT_FALSE(opened(5));
    world.decode().tell(LinkRetired{world.link_at_decode()->id});
    world.pass(15 * kSecond);
}

TEST_F(ShardLinkTest, a_room_with_a_known_peer_is_served) {
    World world;
    world.lasting = true;
    for (const uint64_t room_id : {7, 8, 9}) {
        const Room room = begin(world, room_id);
        world.run();
        EXPECT_EQ(world.prefill().state(room.sender), KVF_STATE_SUCCESS);
        EXPECT_EQ(world.decode().state(room.receiver), KVF_STATE_SUCCESS);
        close(world, room);
    }
    world.decode().tell(LinkRetired{world.link_at_decode()->id});
}

// Where nothing fences a peer, the peer itself has to say that nothing of it is in flight.
TEST_F(ShardLinkTest, pages_offered_over_a_lost_connection_are_free_when_the_peer_says_so_on_the_next) {
    World world({"modest?slow=100"});
    const Room room = begin(world, 7);
    world.run(0);
    world.lose(0, false);
    EXPECT_EQ(world.decode().code(room.receiver), KVF_ERR_PEER_LOST);
    world.connect(0);
    world.find();
    world.run(10);
    // Its writes are in flight still.
    EXPECT_FALSE(world.prefill().quiesced(room.sender));
    EXPECT_FALSE(world.decode().quiesced(room.receiver));
    world.run(300);
    EXPECT_TRUE(world.prefill().quiesced(room.sender));
    EXPECT_TRUE(world.decode().quiesced(room.receiver));
    close(world, room);
}

TEST_F(ShardLinkTest, another_engine_at_the_same_place_can_not_say_that_a_lost_one_is_done) {
    World world({"fenced?slow=100000", "memory"});
    const Room room = begin(world, 7);
    world.run(0);
    world.lose(0, false);
    ASSERT_EQ(world.settles.size(), 1u);
    world.decode().tell(DrainedCame{4242, 7, room.receiver.value});
    world.run();
    EXPECT_FALSE(world.decode().quiesced(room.receiver));
    world.fence(0);
    world.run();
    EXPECT_TRUE(world.decode().quiesced(room.receiver));
    close(world, room);
}

TEST_F(ShardLinkTest, a_room_whose_receiver_was_lost_before_it_was_opened_fails_unless_it_offers_again_soon) {
    World world;
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {1})});
    world.run();
    world.lose(0);
    world.run();
    const RoomHandle sender = world.prefill().open_sender(7);
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_BOOTSTRAPPING);
    world.pass(10 * kSecond);
    EXPECT_EQ(world.prefill().code(sender), KVF_ERR_PEER_LOST);
    EXPECT_EQ(world.prefill().message(sender), "the connection is gone");
    EXPECT_TRUE(world.prefill().quiesced(sender));
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

TEST_F(ShardLinkTest, a_receiver_that_offers_again_takes_the_place_of_the_one_that_was_lost) {
    World world;
    const RoomHandle lost = world.decode().open_receiver(7);
    world.decode().accept(lost, {pages(kKv, {1})});
    world.run();
    world.lose(0);
    world.run();
    EXPECT_EQ(world.decode().close(lost), KVF_OK);
    world.connect(0);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {2})});
    world.run();
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().send(sender, {pages(kKv, {3})});
    world.run();
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_SUCCESS) << world.prefill().message(sender);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_SUCCESS);
    world.expect_arrived(kKv, {3}, {2});
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

TEST_F(ShardLinkTest, a_receiver_may_offer_again_after_the_room_was_opened) {
    World world;
    const RoomHandle lost = world.decode().open_receiver(7);
    world.decode().accept(lost, {pages(kKv, {1})});
    world.run();
    world.lose(0);
    world.run();
    EXPECT_EQ(world.decode().close(lost), KVF_OK);
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().send(sender, {pages(kKv, {3})});
    world.connect(0);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {2})});
    world.run();
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_SUCCESS) << world.prefill().message(sender);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_SUCCESS);
    world.expect_arrived(kKv, {3}, {2});
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

TEST_F(ShardLinkTest, a_room_of_two_receivers_fails_when_one_was_lost_and_only_the_other_offers) {
    World world({"memory", "memory"});
    const RoomHandle lost = world.decode(0).open_receiver(7);
    world.decode(0).accept(lost, {pages(kKv, {1})});
    world.run();
    world.lose(0);
    const RoomHandle other = world.decode(1).open_receiver(7);
    world.decode(1).accept(other, {pages(kKv, {2})});
    world.run();
    const RoomHandle sender = world.prefill().open_sender(7, 2);
    world.pass(10 * kSecond);
    EXPECT_EQ(world.prefill().code(sender), KVF_ERR_PEER_LOST);
    EXPECT_EQ(world.decode(1).code(other), KVF_ERR_PEER_LOST);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode(0).close(lost), KVF_OK);
    EXPECT_EQ(world.decode(1).close(other), KVF_OK);
}

TEST_F(ShardLinkTest, a_peer_that_does_not_fit_fails_the_room_with_the_reason) {
    World world;
    world.findable = false;
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {1})});
    world.run();
    world.seeks.clear();
    world.decode().tell(PeerRefused{receiver, {KVF_ERR_LAYOUT, 3, "dtype is 1 here and 2 there"}});
    EXPECT_EQ(world.decode().code(receiver), KVF_ERR_LAYOUT);
    EXPECT_EQ(world.decode().message(receiver), "dtype is 1 here and 2 there");
    EXPECT_EQ(world.decode().report(receiver).rank, 3);
    EXPECT_TRUE(world.decode().quiesced(receiver));
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

// Control has nobody to tell of it any more once it has answered.
TEST_F(ShardLinkTest, a_peer_found_for_a_room_at_its_end_is_told_so) {
    for (const bool closed : {false, true}) {
        SCOPED_TRACE(closed);
        World world;
        world.findable = false;
        const RoomHandle receiver = world.decode().open_receiver(7);
        world.run();
        world.decode().abort(receiver);
        world.decode().said.clear();
        if (closed) {
            EXPECT_EQ(world.decode().close(receiver), KVF_OK);
        }
        world.decode().tell(PeerFound{receiver, world.link_at_decode(), true, 7});
        ASSERT_EQ(world.decode().said.size(), 1u);
        const auto &abort = std::get<SendAbort>(world.decode().said[0]);
        EXPECT_EQ(abort.link, world.link_at_decode());
        EXPECT_EQ(abort.room_id, 7u);
        EXPECT_EQ(abort.room, receiver);
        EXPECT_FALSE(abort.offered);
        EXPECT_EQ(abort.cause.code, KVF_ERR_ABORTED);
        EXPECT_EQ(abort.cause.sentence, closed ? "closed before its peer was found" : "cancelled");
        world.run();
        if (!closed) {
            EXPECT_EQ(world.decode().close(receiver), KVF_OK);
        }
        world.pass(15 * kSecond);
    }
}

// ------------------------------------------------------------------------------------------------------------
// transports

TEST_F(ShardLinkTest, a_transport_leaves_when_its_rooms_have_ended) {
    World world({"memory?slow=20"});
    const Room room = begin(world, 7);
    world.run(0);
    EXPECT_FALSE(world.prefill().unload("memory?slow=20"));
    world.run();
    EXPECT_EQ(world.prefill().state(room.sender), KVF_STATE_SUCCESS);
    close(world, room);
    EXPECT_TRUE(world.prefill().unloaded("memory?slow=20"));
    // Rooms on links that are still there fail, and say why.
    const Room late = begin(world, 9);
    world.run();
    EXPECT_EQ(world.prefill().code(late.sender), KVF_ERR_NO_TRANSPORT);
    EXPECT_EQ(world.prefill().message(late.sender), "the transport memory was unloaded");
    EXPECT_EQ(world.decode().code(late.receiver), KVF_ERR_NO_TRANSPORT);
    close(world, late);
}

TEST_F(ShardLinkTest, a_transport_that_is_not_there_is_down_already) {
    World world;
    bool down = false;
    world.prefill().tell(TransportDown{nullptr, std::make_shared<Tally>(1, [&](const Status &) { down = true; })});
    EXPECT_TRUE(down);
}

// --------------------------------------------------------------------------------------------------------- engine's
// end

TEST_F(ShardLinkTest, an_engine_that_closes_ends_its_rooms_and_tells_the_peers) {
    for (const bool prefill_closes : {true, false}) {
        World world({"modest?slow=100"});
        const Room moving = begin(world, 7);
        const RoomHandle waiting = world.prefill().open_sender(20);
        const RoomHandle looking = world.decode().open_receiver(21);
        world.run(0);
        Side &side = prefill_closes ? world.prefill() : world.decode();
        bool ended = false;
        side.tell(EndAllRooms{{KVF_ERR_CLOSED, 4, "the engine was closed"},
                              std::make_shared<Tally>(1, [&](const Status &) { ended = true; })});
        world.run(0);
        // Writes are in flight, on prefill's side or towards decode's.
        EXPECT_EQ(side.shard.take_ended(), nullptr);
        world.run(200);
        const auto tally = side.shard.take_ended();
        ASSERT_NE(tally, nullptr);
        tally->add({});
        EXPECT_TRUE(ended);
        EXPECT_EQ(side.shard.take_ended(), nullptr);
        EXPECT_EQ(side.table.open_rooms(), 0u);

        if (prefill_closes) {
            EXPECT_EQ(world.decode().code(moving.receiver), KVF_ERR_PEER_CLOSED);
            EXPECT_EQ(world.decode().close(moving.receiver), KVF_OK);
            world.decode().abort(looking);
            world.run();
            EXPECT_EQ(world.decode().close(looking), KVF_OK);
            EXPECT_TRUE(world.prefill().stale(waiting));
        } else {
            EXPECT_EQ(world.prefill().code(moving.sender), KVF_ERR_PEER_CLOSED);
            EXPECT_EQ(world.prefill().close(moving.sender), KVF_OK);
            world.prefill().abort(waiting);
            EXPECT_EQ(world.prefill().close(waiting), KVF_OK);
        }
        world.pass(15 * kSecond);
    }
}

TEST_F(ShardLinkTest, rooms_that_are_opened_or_offered_while_an_engine_closes_end_at_once) {
    World world;
    for (Side *side : {&world.prefill()}) {
        side->tell(EndAllRooms{{KVF_ERR_CLOSED, 4, "the engine was closed"},
                               std::make_shared<Tally>(1, [](const Status &) {})});
    }
    const RoomHandle sender = world.prefill().open_sender(7);
    EXPECT_TRUE(world.prefill().stale(sender));
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {1})});
    world.run();
    EXPECT_EQ(world.decode().code(receiver), KVF_ERR_PEER_CLOSED);
    EXPECT_EQ(world.decode().message(receiver), "the engine was closed");
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    ASSERT_NE(world.prefill().shard.take_ended(), nullptr);
}

} // namespace
} // namespace kvf
