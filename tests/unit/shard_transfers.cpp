// Rooms from open to Success: who comes first, chunks, layers, groups, receivers; and lists that do not fit.
#include "shard_world.h"

namespace kvf {
namespace {

using ShardTransferTest = ShardTest;

void expect_success(World &world, RoomHandle sender, RoomHandle receiver, size_t decode = 0) {
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_SUCCESS) << world.prefill().message(sender);
    EXPECT_EQ(world.decode(decode).state(receiver), KVF_STATE_SUCCESS) << world.decode(decode).message(receiver);
    EXPECT_EQ(world.told(receiver, decode), 1);
}

void close_both(World &world, RoomHandle sender, RoomHandle receiver) {
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

TEST_F(ShardTransferTest, a_room_goes_through_its_states_to_success) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_BOOTSTRAPPING);
    world.run();
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_WAITING);
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_BOOTSTRAPPING);
    world.decode().accept(receiver, {pages(kKv, {9, 10, 3})});
    world.run();
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_WAITING);
    world.prefill().send(sender, {pages(kKv, {0, 1, 2})}, {.last = false});
    world.run();
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_TRANSFERRING);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_TRANSFERRING);
    world.prefill().send(sender, {});
    world.run();
    expect_success(world, sender, receiver);
    world.expect_arrived(kKv, {0, 1, 2}, {9, 10, 3});
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, neither_side_has_to_be_first) {
    for (const bool offer_first : {true, false}) {
        World world;
        RoomHandle receiver;
        const auto offer = [&] {
            receiver = world.decode().open_receiver(7);
            world.decode().accept(receiver, {pages(kKv, range(4, 5))});
            world.run();
        };
        if (offer_first)
            offer();
        const RoomHandle sender = world.prefill().open_sender(7);
        world.prefill().send(sender, {pages(kKv, range(20, 5))});
        world.run();
        if (!offer_first)
            offer();
        expect_success(world, sender, receiver);
        world.expect_arrived(kKv, range(20, 5), range(4, 5));
        close_both(world, sender, receiver);
    }
}

TEST_F(ShardTransferTest, pages_accepted_before_the_peer_is_found_are_offered_then) {
    World world;
    world.findable = false;
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {1})});
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().send(sender, {pages(kKv, {2})});
    world.run();
    EXPECT_TRUE(world.offers.empty());
    world.find();
    world.run();
    expect_success(world, sender, receiver);
    world.expect_arrived(kKv, {2}, {1});
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, chunks_go_on_where_the_one_before_ended) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, range(0, 12))});
    world.prefill().send(sender, {pages(kKv, range(20, 5))}, {.last = false});
    world.run();
    world.prefill().send(sender, {pages(kKv, {7})}, {.last = false});
    world.prefill().send(sender, {}, {.last = false});
    world.prefill().send(sender, {pages(kKv, {})}, {.last = false});
    world.prefill().send(sender, {pages(kKv, range(1, 6))});
    world.run();
    expect_success(world, sender, receiver);
    world.expect_arrived(kKv, range(20, 5), range(0, 5));
    world.expect_arrived(kKv, {7}, {5});
    world.expect_arrived(kKv, range(1, 6), range(6, 6));
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, layers_progress_each_for_itself) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, range(0, 8))});
    const auto send = [&](uint32_t layer_begin, uint32_t layer_count, uint32_t first, uint32_t count, bool last) {
        world.prefill().send(sender, {pages(kKv, range(first, count))},
                             {.last = last, .layer_begin = layer_begin, .layer_count = layer_count});
        world.run();
    };
    send(0, 1, 10, 4, false);
    send(1, 2, 10, 4, false);
    world.expect_arrived(kKv, range(10, 4), range(0, 4));
    send(0, 2, 20, 4, false);
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_TRANSFERRING);
    // The range may go beyond the layers that there are.
    send(2, UINT32_MAX, 20, 4, true);
    expect_success(world, sender, receiver);
    world.expect_arrived(kKv, range(20, 4), range(4, 4));
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, groups_have_lists_of_their_own) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kAux, {6}), pages(kKv, range(3, 4))});
    world.prefill().send(sender, {pages(kKv, range(12, 4))}, {.last = false});
    world.prefill().send(sender, {pages(kAux, {2})});
    world.run();
    expect_success(world, sender, receiver);
    world.expect_arrived(kKv, range(12, 4), range(3, 4));
    world.expect_arrived(kAux, {2}, {6});
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, a_group_that_is_not_accepted_receives_nothing) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {3}), pages(kAux, {})});
    world.prefill().send(sender, {pages(kKv, {1}), pages(kAux, {})});
    world.run();
    expect_success(world, sender, receiver);
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, a_room_of_no_pages_succeeds) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {});
    world.prefill().send(sender, {});
    world.run();
    expect_success(world, sender, receiver);
    EXPECT_EQ(world.prefill().report(sender).bytes, 0u);
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, an_empty_last_chunk_waits_for_what_is_in_flight) {
    World world({"memory?slow=20"});
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, range(0, 3))});
    world.prefill().send(sender, {pages(kKv, range(0, 3))}, {.last = false});
    world.prefill().send(sender, {});
    world.run(1);
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_TRANSFERRING);
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_TRANSFERRING);
    world.run();
    expect_success(world, sender, receiver);
    world.expect_arrived(kKv, range(0, 3), range(0, 3));
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, every_receiver_gets_the_pages) {
    World world({"memory", "memory?slow=5"});
    const RoomHandle sender = world.prefill().open_sender(7, 2);
    const RoomHandle first = world.decode(0).open_receiver(7, 300);
    const RoomHandle second = world.decode(1).open_receiver(7, 200);
    world.decode(0).accept(first, {pages(kKv, range(0, 6))});
    world.prefill().send(sender, {pages(kKv, range(10, 6))});
    world.run();
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_BOOTSTRAPPING);
    world.decode(1).accept(second, {pages(kKv, range(20, 6))});
    world.run();
    expect_success(world, sender, first, 0);
    expect_success(world, sender, second, 1);
    world.expect_arrived(kKv, range(10, 6), range(0, 6), 0);
    world.expect_arrived(kKv, range(10, 6), range(20, 6), 1);
    const uint64_t bytes = uint64_t{6} * 6 * 64;
    EXPECT_EQ(world.prefill().report(sender).bytes, 2 * bytes);
    EXPECT_EQ(world.decode(0).report(first).bytes, bytes);
    EXPECT_EQ(world.decode(1).report(second).bytes, bytes);
    EXPECT_EQ(world.prefill().report(sender).prefix_tokens, 200u);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode(0).close(first), KVF_OK);
    EXPECT_EQ(world.decode(1).close(second), KVF_OK);
}

TEST_F(ShardTransferTest, two_engines_may_receive_rooms_of_one_id_in_turn) {
    World world({"memory", "memory"});
    const RoomHandle first = world.decode(0).open_receiver(7);
    const RoomHandle second = world.decode(1).open_receiver(7);
    world.decode(0).accept(first, {pages(kKv, {1})});
    const RoomHandle sender = world.prefill().open_sender(7);
    world.prefill().send(sender, {pages(kKv, {2})});
    world.run();
    expect_success(world, sender, first, 0);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    world.decode(1).accept(second, {pages(kKv, {3})});
    const RoomHandle again = world.prefill().open_sender(7);
    world.prefill().send(again, {pages(kKv, {4})});
    world.run();
    expect_success(world, again, second, 1);
    world.expect_arrived(kKv, {4}, {3}, 1);
    EXPECT_EQ(world.prefill().close(again), KVF_OK);
    EXPECT_EQ(world.decode(0).close(first), KVF_OK);
    EXPECT_EQ(world.decode(1).close(second), KVF_OK);
}

// ------------------------------------------------------------------------------------------------------------ what it
// says

TEST_F(ShardTransferTest, reports_tell_the_whole_story) {
    World world;
    world.prefill().now = world.decode().now = 2 * kSecond;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7, 128);
    EXPECT_EQ(world.prefill().report(sender).opened_ns, 2 * kSecond);
    EXPECT_EQ(world.decode().report(receiver).opened_ns, 2 * kSecond);
    EXPECT_EQ(world.decode().report(receiver).prefix_tokens, 128u);
    world.pass(kSecond);
    EXPECT_EQ(world.decode().report(receiver).waiting_ns, 2 * kSecond);
    world.decode().accept(receiver, {pages(kKv, range(0, 8))});
    world.run();
    EXPECT_EQ(world.prefill().report(sender).waiting_ns, 3 * kSecond);
    EXPECT_EQ(world.prefill().report(sender).prefix_tokens, 128u);
    world.pass(kSecond);
    world.prefill().send(sender, {pages(kKv, range(0, 4))}, {.last = false});
    world.run();
    EXPECT_EQ(world.prefill().report(sender).bytes, uint64_t{4} * 6 * 64);
    world.pass(kSecond);
    world.prefill().send(sender, {pages(kKv, range(4, 4))});
    world.run();

    const kvf_report sent = world.prefill().report(sender);
    EXPECT_EQ(sent.room_id, 7u);
    EXPECT_EQ(sent.state, uint32_t{KVF_STATE_SUCCESS});
    EXPECT_EQ(sent.flags, uint32_t{KVF_ROOM_QUIESCED});
    EXPECT_EQ(sent.peer_instance, world.decode().instance);
    EXPECT_STREQ(sent.transport, "memory");
    EXPECT_EQ(sent.bytes, uint64_t{8} * 6 * 64);
    EXPECT_GT(sent.segments, 0u);
    EXPECT_EQ(sent.queued_ns, 4 * kSecond);
    EXPECT_EQ(sent.posted_ns, 4 * kSecond);
    EXPECT_EQ(sent.landed_ns, 5 * kSecond);
    EXPECT_EQ(sent.ended_ns, 5 * kSecond);
    EXPECT_EQ(sent.quiesced_ns, 5 * kSecond);
    EXPECT_EQ(sent.rank, -1);
    EXPECT_STREQ(sent.message, "");
    const kvf_report received = world.decode().report(receiver);
    EXPECT_EQ(received.peer_instance, world.prefill().instance);
    EXPECT_STREQ(received.transport, "memory");
    EXPECT_EQ(received.bytes, sent.bytes);
    EXPECT_EQ(received.segments, sent.segments);
    EXPECT_EQ(received.queued_ns, 3 * kSecond);
    EXPECT_EQ(received.posted_ns, 4 * kSecond);
    EXPECT_EQ(received.ended_ns, 5 * kSecond);
    close_both(world, sender, receiver);
}

// ------------------------------------------------------------------------------------------------------ what does not
// fit

struct Misfit {
    const char *what;
    std::vector<PageList> offered;
    std::vector<PageList> chunk;
    ChunkShape shape;
    int code;
    const char *sentence;
};

TEST_F(ShardTransferTest, lists_that_do_not_fit_fail_the_room_on_both_sides) {
    const Misfit misfits[] = {
        {"longer",
         {pages(kKv, range(0, 3))},
         {pages(kKv, range(0, 4))},
         {},
         KVF_ERR_LENGTH,
         "room 7: a chunk has 4 pages of group 0 behind the first 0, decode0 offered 3"},
        {"longer, not last",
         {pages(kKv, range(0, 3))},
         {pages(kKv, range(0, 4))},
         {.last = false},
         KVF_ERR_LENGTH,
         "room 7: a chunk has 4 pages of group 0 behind the first 0, decode0 offered 3"},
        {"short",
         {pages(kKv, range(0, 3))},
         {pages(kKv, range(0, 2))},
         {},
         KVF_ERR_LENGTH,
         "room 7: the last chunk is here with 2 pages of group 0 in layer 0, decode0 offered 3"},
        {"short in a layer",
         {pages(kKv, {1})},
         {pages(kKv, {1})},
         {.layer_begin = 1, .layer_count = 2},
         KVF_ERR_LENGTH,
         "room 7: the last chunk is here with 0 pages of group 0 in layer 0, decode0 offered 1"},
        {"without a group",
         {pages(kKv, {1}), pages(kAux, {2})},
         {pages(kKv, {1})},
         {},
         KVF_ERR_LENGTH,
         "room 7: the last chunk is here and none had pages of group 1, of which decode0 offered 1"},
        {"a group not offered",
         {pages(kKv, {1})},
         {pages(kKv, {1}), pages(kAux, {2})},
         {},
         KVF_ERR_LENGTH,
         "room 7: a chunk has 1 pages of group 1, of which decode0 offered none"},
        {"no such layer",
         {pages(kKv, {1})},
         {pages(kKv, {1})},
         {.layer_begin = 5, .layer_count = 2},
         KVF_ERR_GROUP,
         "room 7: a chunk of layers [5, 7) has pages of group 0, which has none of these layers"},
        {"group not known",
         {pages(9, {1})},
         {},
         {},
         KVF_ERR_GROUP,
         "room 7: decode0 offers pages of group 9, in which the engines have no tensor in common"},
        {"page outside",
         {pages(kKv, {31, 32})},
         {pages(kKv, {1, 2})},
         {},
         KVF_ERR_PAGE,
         "room 7: decode0 offers page 32 of group 0, of which it registered 32 pages"},
    };
    for (const Misfit &misfit : misfits) {
        SCOPED_TRACE(misfit.what);
        World world;
        const RoomHandle sender = world.prefill().open_sender(7);
        const RoomHandle receiver = world.decode().open_receiver(7);
        world.decode().accept(receiver, misfit.offered);
        world.prefill().send(sender, misfit.chunk, misfit.shape);
        world.run();
        EXPECT_EQ(world.prefill().code(sender), misfit.code);
        EXPECT_EQ(world.prefill().message(sender), misfit.sentence);
        EXPECT_EQ(world.decode().code(receiver), misfit.code);
        EXPECT_EQ(world.decode().message(receiver), misfit.sentence);
        EXPECT_EQ(world.told(receiver), 1);
        EXPECT_TRUE(world.prefill().quiesced(sender));
        EXPECT_TRUE(world.decode().quiesced(receiver));
        close_both(world, sender, receiver);
    }
}

TEST_F(ShardTransferTest, a_chunk_of_layers_that_stand_at_different_pages_fails_the_room) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, range(0, 4))});
    world.prefill().send(sender, {pages(kKv, range(0, 2))}, {.last = false, .layer_begin = 1, .layer_count = 1});
    world.prefill().send(sender, {pages(kKv, range(0, 2))});
    world.run();
    EXPECT_EQ(world.prefill().code(sender), KVF_ERR_LENGTH);
    EXPECT_EQ(world.decode().code(receiver), KVF_ERR_LENGTH);
    EXPECT_EQ(world.decode().message(receiver),
              "room 7: a chunk of layers from 0 finds group 0 at page 2 in layer 1 and at 0 before it");
    close_both(world, sender, receiver);
}

TEST_F(ShardTransferTest, receivers_that_offer_different_lengths_fail_the_room) {
    World world({"memory", "memory"});
    const RoomHandle sender = world.prefill().open_sender(7, 2);
    const RoomHandle first = world.decode(0).open_receiver(7);
    const RoomHandle second = world.decode(1).open_receiver(7);
    world.decode(0).accept(first, {pages(kKv, range(0, 6))});
    world.run();
    world.decode(1).accept(second, {pages(kKv, range(0, 5))});
    world.run();
    EXPECT_EQ(world.prefill().code(sender), KVF_ERR_LENGTH);
    EXPECT_EQ(world.prefill().message(sender), "room 7: decode1 offers 5 pages of group 0, decode0 offered 6");
    EXPECT_EQ(world.decode(0).code(first), KVF_ERR_LENGTH);
    EXPECT_EQ(world.decode(1).code(second), KVF_ERR_LENGTH);
    EXPECT_EQ(world.prefill().report(sender).rank, 71);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode(0).close(first), KVF_OK);
    EXPECT_EQ(world.decode(1).close(second), KVF_OK);
}

// Also where one side does not name what the other offers.
TEST_F(ShardTransferTest, receivers_that_offer_different_groups_fail_the_room) {
    struct {
        const char *what;
        std::vector<PageList> first, second;
        const char *sentence;
    } const misfits[] = {
        {"nothing", {pages(kKv, {1, 2, 3})}, {}, "room 7: decode1 offers 0 pages of group 0, decode0 offered 3"},
        {"nothing of the group",
         {pages(kKv, {1, 2, 3})},
         {pages(kAux, {})},
         "room 7: decode1 offers 0 pages of group 0, decode0 offered 3"},
        {"another group",
         {pages(kKv, {1}), pages(kAux, {})},
         {pages(kAux, {2}), pages(kKv, {1})},
         "room 7: decode1 offers 1 pages of group 1, decode0 offered 0"},
        {"nothing at first", {}, {pages(kKv, {1})}, "room 7: decode1 offers 1 pages of group 0, decode0 offered 0"},
    };
    for (const auto &misfit : misfits) {
        SCOPED_TRACE(misfit.what);
        World world({"memory", "memory"});
        const RoomHandle sender = world.prefill().open_sender(7, 2);
        const RoomHandle first = world.decode(0).open_receiver(7);
        const RoomHandle second = world.decode(1).open_receiver(7);
        world.decode(0).accept(first, misfit.first);
        world.run();
        world.decode(1).accept(second, misfit.second);
        world.prefill().send(sender, {pages(kKv, {1, 2, 3})});
        world.run();
        EXPECT_EQ(world.prefill().code(sender), KVF_ERR_LENGTH);
        EXPECT_EQ(world.prefill().message(sender), misfit.sentence);
        EXPECT_EQ(world.decode(0).code(first), KVF_ERR_LENGTH);
        EXPECT_EQ(world.decode(1).code(second), KVF_ERR_LENGTH);
        EXPECT_EQ(world.prefill().close(sender), KVF_OK);
        EXPECT_EQ(world.decode(0).close(first), KVF_OK);
        EXPECT_EQ(world.decode(1).close(second), KVF_OK);
    }
}

TEST_F(ShardTransferTest, a_group_that_one_receiver_names_without_pages_and_the_other_not_at_all_is_the_same) {
    World world({"memory", "memory"});
    const RoomHandle sender = world.prefill().open_sender(7, 2);
    const RoomHandle first = world.decode(0).open_receiver(7);
    const RoomHandle second = world.decode(1).open_receiver(7);
    world.decode(0).accept(first, {pages(kKv, {1}), pages(kAux, {})});
    world.decode(1).accept(second, {pages(kKv, {2})});
    world.prefill().send(sender, {pages(kKv, {3}), pages(kAux, {})});
    world.run();
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_SUCCESS) << world.prefill().message(sender);
    world.expect_arrived(kKv, {3}, {1}, 0);
    world.expect_arrived(kKv, {3}, {2}, 1);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode(0).close(first), KVF_OK);
    EXPECT_EQ(world.decode(1).close(second), KVF_OK);
}

TEST_F(ShardTransferTest, a_receiver_too_many_is_refused_and_the_room_goes_on) {
    World world({"memory", "memory"});
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle first = world.decode(0).open_receiver(7);
    const RoomHandle second = world.decode(1).open_receiver(7);
    world.decode(0).accept(first, {pages(kKv, {1})});
    world.run();
    world.decode(1).accept(second, {pages(kKv, {1})});
    world.run();
    EXPECT_EQ(world.decode(1).code(second), KVF_ERR_UNCLAIMED);
    EXPECT_EQ(world.decode(1).message(second), "room 7 has its 1 receivers already");
    world.prefill().send(sender, {pages(kKv, {5})});
    world.run();
    expect_success(world, sender, first, 0);
    close_both(world, sender, first);
    EXPECT_EQ(world.decode(1).close(second), KVF_OK);
}

TEST_F(ShardTransferTest, a_repeated_offer_is_dropped_and_counted) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {1})});
    world.run();
    ASSERT_EQ(world.offers.size(), 1u);
    const uint64_t before = world.prefill().shard.counters().late_messages.load();
    world.prefill().tell(OfferCame(world.offers.front()));
    EXPECT_EQ(world.prefill().shard.counters().late_messages.load(), before + 1);
    world.prefill().send(sender, {pages(kKv, {2})});
    world.run();
    expect_success(world, sender, receiver);
    world.prefill().tell(OfferCame(world.offers.front()));
    EXPECT_EQ(world.prefill().shard.counters().late_messages.load(), before + 2);
    close_both(world, sender, receiver);
}

} // namespace
} // namespace kvf
