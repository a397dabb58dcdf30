// The data path: windows, transports that are full or stuck, fences of chunks, and when a shard has to poll.
#include "shard_world.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace kvf {
namespace {

using ShardFlowTest = ShardTest;

struct Room {
    RoomHandle sender, receiver;
    uint32_t page = 0;
    uint32_t count = 0;
    size_t decode = 0;
};

Room begin(World &world, uint64_t room_id, uint32_t page, uint32_t count, size_t decode = 0) {
    Room room{world.prefill().open_sender(room_id), world.decode(decode).open_receiver(room_id), page, count, decode};
    world.decode(decode).accept(room.receiver, {pages(kKv, range(page, count))});
    world.prefill().send(room.sender, {pages(kKv, range(page, count))});
    return room;
}

void expect_served(World &world, const Room &room) {
    EXPECT_EQ(world.prefill().state(room.sender), KVF_STATE_SUCCESS) << world.prefill().message(room.sender);
    EXPECT_EQ(world.decode(room.decode).state(room.receiver), KVF_STATE_SUCCESS);
    world.expect_arrived(kKv, range(room.page, room.count), range(room.page, room.count), room.decode);
}

void close(World &world, const Room &room) {
    EXPECT_EQ(world.prefill().close(room.sender), KVF_OK);
    EXPECT_EQ(world.decode(room.decode).close(room.receiver), KVF_OK);
}

uint64_t in_flight(World &world) {
    return world.prefill().shard.counters().open_operations.load();
}

// ---------------------------------------------------------------------------------------------------------------
// windows

TEST_F(ShardFlowTest, no_more_operations_are_in_flight_than_the_window_holds) {
    WorldSetup setup;
    setup.shard.window_ops = 3;
    World world({"memory?slow=4"}, setup);
    std::vector<Room> rooms;
    for (uint32_t i = 0; i < 3; ++i)
        rooms.push_back(begin(world, i, i * 8, 8));
    uint64_t most = 0;
    for (int turn = 0; turn < 400; ++turn) {
        world.run(0);
        most = std::max(most, in_flight(world));
    }
    EXPECT_EQ(most, 3u);
    for (const Room &room : rooms) {
        expect_served(world, room);
        close(world, room);
    }
}

TEST_F(ShardFlowTest, no_more_bytes_are_in_flight_than_the_window_holds) {
    WorldSetup setup;
    setup.shard.window_bytes = 640;
    World world({"memory?slow=4"}, setup);
    const Room rooms[] = {begin(world, 7, 0, 16), begin(world, 8, 16, 16)};
    const ShardCounters &counters = world.prefill().shard.counters();
    uint64_t most = 0;
    for (int turn = 0; turn < 400; ++turn) {
        world.run(0);
        most = std::max(most, counters.bytes.load() - world.prefill().report(rooms[0].sender).bytes -
                                  world.prefill().report(rooms[1].sender).bytes);
    }
    EXPECT_EQ(most, 640u);
    for (const Room &room : rooms) {
        expect_served(world, room);
        close(world, room);
    }
}

TEST_F(ShardFlowTest, rooms_take_turns_within_the_window) {
    WorldSetup setup;
    setup.shard.window_ops = 1;
    World world({"memory?slow=4"}, setup);
    const Room large = begin(world, 7, 0, 24);
    world.run(0);
    const Room small = begin(world, 8, 24, 1);
    world.run(300);
    expect_served(world, large);
    expect_served(world, small);
    close(world, large);
    close(world, small);
}

// Each has half of what the ones before it left, whoever came first and whether or not another was there then.
TEST_F(ShardFlowTest, rooms_whose_operations_never_complete_leave_a_place_in_the_window) {
    WorldSetup setup;
    setup.shard.window_ops = 16;
    World world({"fault+memory?never=1", "memory"}, setup);
    std::vector<Room> stuck;
    const uint64_t in_flight_then[] = {8, 12, 14};
    for (uint32_t i = 0; i < 3; ++i) {
        stuck.push_back(begin(world, 100 + i, i * 8, 8, 0));
        world.run(2);
        EXPECT_EQ(in_flight(world), in_flight_then[i]);
    }
    const Room other = begin(world, 7, 24, 8, 1);
    world.run();
    expect_served(world, other);
    close(world, other);
    for (const Room &room : stuck) {
        EXPECT_EQ(world.prefill().state(room.sender), KVF_STATE_TRANSFERRING);
        world.prefill().abort(room.sender);
    }
    world.run();
    for (const Room &room : stuck)
        close(world, room);
}

TEST_F(ShardFlowTest, a_room_whose_bytes_stay_in_flight_leaves_a_place_in_the_window) {
    WorldSetup setup;
    setup.shard.window_bytes = 1024;
    World world({"fault+memory?never=1", "memory"}, setup);
    const Room stuck = begin(world, 7, 0, 8, 0);
    world.run(2);
    EXPECT_EQ(in_flight(world), 2u); // of 256 bytes
    const Room other = begin(world, 8, 24, 8, 1);
    world.run();
    expect_served(world, other);
    close(world, other);
    world.prefill().abort(stuck.sender);
    world.run();
    close(world, stuck);
}

// ------------------------------------------------------------------------------------------------------- stuck and
// failing

TEST_F(ShardFlowTest, a_full_transport_takes_the_rest_later) {
    World world({"memory?depth=1,take=1,slow=2"});
    const Room room = begin(world, 7, 0, 12);
    world.run(1000);
    expect_served(world, room);
    close(world, room);
}

TEST_F(ShardFlowTest, whatever_part_of_a_batch_is_accepted_every_byte_arrives) {
    for (int seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        World world({"fault+memory?truncate=0.5,full=0.3,reorder=0.5,polls=0-4,seed=" + std::to_string(seed)});
        const Room first = begin(world, 7, 0, 11);
        const Room second = begin(world, 8, 11, 13);
        world.run(400);
        expect_served(world, first);
        expect_served(world, second);
        close(world, first);
        close(world, second);
    }
}

TEST_F(ShardFlowTest, a_full_transport_does_not_stop_the_rooms_of_others) {
    World world({"memory?depth=1,slow=100000", "memory"});
    const Room stuck = begin(world, 7, 0, 8, 0);
    world.run(0);
    const Room other = begin(world, 8, 0, 8, 1);
    world.run(2);
    EXPECT_EQ(world.prefill().state(stuck.sender), KVF_STATE_TRANSFERRING);
    expect_served(world, other);
    close(world, other);
    world.prefill().abort(stuck.sender);
    world.run();
    close(world, stuck);
}

// Its writes can't be cancelled, so they are in flight for as long as they like.
TEST_F(ShardFlowTest, a_room_that_failed_with_writes_stuck_in_flight_leaves_the_window_to_others) {
    WorldSetup setup;
    setup.shard.window_ops = 1;
    World world({"modest?slow=500", "memory"}, setup);
    const Room stuck = begin(world, 7, 0, 8, 0);
    world.run(0);
    ASSERT_EQ(in_flight(world), 1u);
    const Room other = begin(world, 8, 0, 8, 1);
    world.run(2);
    EXPECT_EQ(world.prefill().state(other.sender), KVF_STATE_WAITING);
    world.prefill().abort(stuck.sender);
    world.run(10);
    EXPECT_FALSE(world.prefill().quiesced(stuck.sender));
    expect_served(world, other);
    world.run(2000);
    EXPECT_TRUE(world.prefill().quiesced(stuck.sender));
    close(world, stuck);
    close(world, other);
}

TEST_F(ShardFlowTest, a_room_that_fails_over_a_chunk_cancels_what_is_in_flight) {
    World world({"fault+memory?never=1"});
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, range(0, 2))});
    world.prefill().send(sender, {pages(kKv, range(0, 2))}, {.last = false});
    world.run();
    ASSERT_NE(in_flight(world), 0u);
    world.prefill().send(sender, {pages(kKv, range(0, 2))});
    world.run();
    EXPECT_EQ(world.prefill().code(sender), KVF_ERR_LENGTH);
    EXPECT_TRUE(world.prefill().quiesced(sender));
    EXPECT_TRUE(world.decode().quiesced(receiver));
    world.prefill().abort(sender);
    world.run();
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
}

// The first failure has the other operations cancelled, which may cost the texts of completions that are not read yet.
TEST_F(ShardFlowTest, rooms_that_fail_in_one_poll_each_keep_their_reason) {
    World world({"fault+memory?fail=1,hold=before,polls=12"});
    std::vector<Room> rooms;
    for (uint32_t i = 0; i < 3; ++i)
        rooms.push_back(begin(world, 100 + i, i * 8, 8));
    world.run();
    for (const Room &room : rooms) {
        EXPECT_NE(world.prefill().message(room.sender).find("failed by the fault plugin"), std::string::npos);
        EXPECT_EQ(world.prefill().message(room.sender), world.decode().message(room.receiver));
        close(world, room);
    }
}

TEST_F(ShardFlowTest, a_post_that_the_transport_refuses_fails_the_room) {
    World world;
    EXPECT_TRUE(world.link_at_prefill()->transport->fence(world.link_at_prefill()->peer).ok());
    const Room room = begin(world, 7, 0, 2);
    world.run();
    EXPECT_EQ(world.prefill().code(room.sender), KVF_ERR_UNREACHABLE);
    EXPECT_EQ(world.prefill().message(room.sender), "memory: not connected");
    EXPECT_EQ(world.decode().code(room.receiver), KVF_ERR_UNREACHABLE);
    EXPECT_TRUE(world.prefill().quiesced(room.sender));
    close(world, room);
}

TEST_F(ShardFlowTest, what_a_plugin_returns_that_is_no_status_is_a_failure_of_the_transport) {
    for (const char *broken : {"memory?post_result=7", "memory?status=7", "memory?status=65536"}) {
        SCOPED_TRACE(broken);
        World world({broken});
        const Room room = begin(world, 7, 0, 2);
        world.run();
        EXPECT_EQ(world.prefill().code(room.sender), KVF_ERR_TRANSPORT);
        EXPECT_EQ(world.decode().code(room.receiver), KVF_ERR_TRANSPORT);
        EXPECT_TRUE(world.prefill().quiesced(room.sender));
        close(world, room);
    }
}

TEST_F(ShardFlowTest, a_lane_that_can_not_be_polled_fails_its_rooms_and_no_others) {
    World world({"memory?poll_errors=3", "memory"});
    const Room broken = begin(world, 7, 0, 8, 0);
    const Room other = begin(world, 8, 8, 8, 1);
    world.run();
    expect_served(world, other);
    EXPECT_EQ(world.prefill().code(broken.sender), KVF_ERR_SYSTEM);
    EXPECT_EQ(world.prefill().message(broken.sender), "memory: the lane is broken");
    EXPECT_EQ(world.decode(0).code(broken.receiver), KVF_ERR_SYSTEM);
    EXPECT_EQ(world.prefill().shard.counters().lane_failures.load(), 3u);
    // What was in flight came back as soon as the lane could be polled again.
    EXPECT_TRUE(world.prefill().quiesced(broken.sender));
    EXPECT_TRUE(world.decode(0).quiesced(broken.receiver));
    close(world, broken);
    close(world, other);
}

// --------------------------------------------------------------------------------------------------------------
// polling

TEST_F(ShardFlowTest, a_lane_without_a_descriptor_has_to_be_polled_while_it_is_busy) {
    World world({"modest?slow=20"});
    EXPECT_FALSE(world.prefill().shard.must_poll());
    const Room room = begin(world, 7, 0, 2);
    world.run(0);
    EXPECT_TRUE(world.prefill().shard.must_poll());
    std::vector<int> descriptors;
    EXPECT_TRUE(world.prefill().shard.arm_lanes(&descriptors));
    EXPECT_TRUE(descriptors.empty());
    world.run();
    EXPECT_FALSE(world.prefill().shard.must_poll());
    close(world, room);
}

TEST_F(ShardFlowTest, a_lane_with_a_descriptor_is_slept_on_while_it_is_busy) {
    World world({"memory?slow=20"});
    std::vector<int> descriptors;
    EXPECT_TRUE(world.prefill().shard.arm_lanes(&descriptors));
    EXPECT_TRUE(descriptors.empty());
    const Room room = begin(world, 7, 0, 2);
    world.run(0);
    EXPECT_FALSE(world.prefill().shard.must_poll());
    EXPECT_TRUE(world.prefill().shard.arm_lanes(&descriptors));
    EXPECT_EQ(descriptors.size(), 1u);
    world.run();
    close(world, room);
}

TEST_F(ShardFlowTest, a_lane_that_has_something_already_is_not_slept_on) {
    World world({"fault+memory?polls=3"});
    const Room room = begin(world, 7, 0, 2);
    world.run(0);
    ASSERT_NE(in_flight(world), 0u);
    std::vector<int> descriptors;
    EXPECT_FALSE(world.prefill().shard.arm_lanes(&descriptors));
    world.run();
    close(world, room);
}

// --------------------------------------------------------------------------------------------------------- chunks'
// fences

class ShardFenceTest : public ShardTest {
  protected:
    ShardFenceTest() : fence_(eventfd(0, EFD_CLOEXEC)) {}
    ~ShardFenceTest() override { ::close(fence_); }

    const int fence_;
    World world_;
};

TEST_F(ShardFenceTest, a_chunk_is_held_until_its_fence_fires_and_other_rooms_are_not) {
    const RoomHandle sender = world_.prefill().open_sender(7);
    const RoomHandle receiver = world_.decode().open_receiver(7);
    world_.decode().accept(receiver, {pages(kKv, range(0, 3))});
    world_.prefill().send(sender, {pages(kKv, {0})}, {.last = false});
    world_.prefill().send(sender, {pages(kKv, {1})}, {.last = false, .fence = fence_});
    world_.prefill().send(sender, {pages(kKv, {2})});
    world_.run();
    EXPECT_EQ(world_.prefill().state(sender), KVF_STATE_TRANSFERRING);
    world_.expect_arrived(kKv, {0}, {0});
    EXPECT_EQ(world_.prefill().report(sender).bytes, uint64_t{6} * 64);
    const Room other = begin(world_, 8, 8, 4);
    world_.run();
    expect_served(world_, other);
    close(world_, other);

    eventfd_write(fence_, 1);
    world_.run();
    EXPECT_EQ(world_.prefill().state(sender), KVF_STATE_SUCCESS);
    world_.expect_arrived(kKv, range(0, 3), range(0, 3));
    EXPECT_EQ(world_.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world_.decode().close(receiver), KVF_OK);
    // It was not read.
    eventfd_t value = 0;
    EXPECT_EQ(eventfd_read(fence_, &value), 0);
}

TEST_F(ShardFenceTest, a_fence_that_fired_before_holds_nothing_up) {
    eventfd_write(fence_, 1);
    const RoomHandle sender = world_.prefill().open_sender(7);
    const RoomHandle receiver = world_.decode().open_receiver(7);
    world_.decode().accept(receiver, {pages(kKv, range(0, 2))});
    world_.prefill().send(sender, {pages(kKv, {0})}, {.last = false, .fence = fence_});
    world_.prefill().send(sender, {pages(kKv, {1})}, {.last = true, .fence = fence_});
    world_.run();
    EXPECT_EQ(world_.prefill().state(sender), KVF_STATE_SUCCESS);
    EXPECT_EQ(world_.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world_.decode().close(receiver), KVF_OK);
}

TEST_F(ShardFenceTest, a_fence_is_not_watched_before_the_room_has_its_receivers) {
    const RoomHandle sender = world_.prefill().open_sender(7);
    world_.prefill().send(sender, {pages(kKv, {0})}, {.fence = fence_});
    world_.run();
    EXPECT_TRUE(world_.prefill().fences.empty());
    world_.prefill().abort(sender);
    EXPECT_EQ(world_.prefill().close(sender), KVF_OK);
}

TEST_F(ShardFenceTest, a_room_that_ends_stops_watching_its_fence) {
    const RoomHandle sender = world_.prefill().open_sender(7);
    const RoomHandle receiver = world_.decode().open_receiver(7);
    world_.decode().accept(receiver, {pages(kKv, {0})});
    world_.prefill().send(sender, {pages(kKv, {0})}, {.fence = fence_});
    world_.run();
    EXPECT_EQ(world_.prefill().fences.size(), 1u);
    world_.decode().abort(receiver);
    world_.run();
    EXPECT_TRUE(world_.prefill().fences.empty());
    EXPECT_TRUE(world_.prefill().quiesced(sender));
    // One that fires for a room which does not wait is nothing.
    world_.prefill().shard.fence_fired(sender, world_.prefill().now);
    EXPECT_EQ(world_.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world_.decode().close(receiver), KVF_OK);
    world_.prefill().shard.fence_fired(sender, world_.prefill().now);
}

TEST_F(ShardFenceTest, a_fence_that_can_not_fire_fails_its_room_with_the_reason) {
    const RoomHandle sender = world_.prefill().open_sender(7);
    const RoomHandle receiver = world_.decode().open_receiver(7);
    world_.decode().accept(receiver, {pages(kKv, {0})});
    world_.prefill().send(sender, {pages(kKv, {0})}, {.fence = fence_});
    world_.run();
    world_.prefill().shard.fence_failed(sender, {KVF_ERR_INVALID, "broken"}, world_.prefill().now);
    world_.prefill().advance();
    EXPECT_TRUE(world_.prefill().fences.empty());
    world_.run();
    EXPECT_EQ(world_.prefill().code(sender), KVF_ERR_INVALID);
    EXPECT_EQ(world_.prefill().message(sender), "room 7: a chunk's fence: broken");
    EXPECT_EQ(world_.decode().code(receiver), KVF_ERR_INVALID);
    EXPECT_EQ(world_.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world_.decode().close(receiver), KVF_OK);
    world_.prefill().shard.fence_failed(sender, {KVF_ERR_INVALID, "broken"}, world_.prefill().now);
}

TEST_F(ShardFenceTest, a_first_chunk_whose_fence_never_fires_fails_by_its_deadline) {
    const RoomHandle sender = world_.prefill().open_sender(7);
    const RoomHandle receiver = world_.decode().open_receiver(7);
    world_.decode().accept(receiver, {pages(kKv, {0})});
    world_.prefill().send(sender, {pages(kKv, {0})}, {.fence = fence_});
    world_.run();
    world_.decode().now -= kSecond;
    world_.pass(20 * kSecond);
    EXPECT_EQ(world_.prefill().code(sender), KVF_ERR_WAIT_DEADLINE);
    EXPECT_EQ(world_.prefill().message(sender), "room 7: the first chunk could not be posted within 20000 ms");
    EXPECT_TRUE(world_.prefill().fences.empty());
    EXPECT_EQ(world_.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world_.decode().close(receiver), KVF_OK);
}

} // namespace
} // namespace kvf
