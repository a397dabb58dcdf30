// Rooms that end early: given up by either side at any time, deadlines, handles that are closed before the end.
#include "shard_world.h"

namespace kvf {
namespace {

using ShardAbortTest = ShardTest;

// A room with both sides open, in a world of its own.
struct Open {
    explicit Open(const std::string &transport = "memory", uint32_t count = 3)
        : world({transport}),
          sender(world.prefill().open_sender(7)),
          receiver(world.decode().open_receiver(7)),
          count(count) {
        world.run();
    }
    ~Open() {
        EXPECT_EQ(world.prefill().close(sender), KVF_OK);
        EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    }

    void accept() { world.decode().accept(receiver, {pages(kKv, range(4, count))}); }
    void send(bool last = true) { world.prefill().send(sender, {pages(kKv, range(0, count))}, {.last = last}); }

    World world;
    const RoomHandle sender, receiver;
    const uint32_t count;
};

void expect_failed(Side &side, RoomHandle room, int code, const std::string &message, int32_t rank) {
    SCOPED_TRACE(side.name);
    EXPECT_EQ(side.state(room), KVF_STATE_FAILED);
    EXPECT_EQ(side.code(room), code);
    EXPECT_EQ(side.message(room), message);
    EXPECT_EQ(side.report(room).rank, rank);
}

constexpr int32_t kPrefillRank = 4;
constexpr int32_t kDecodeRank = 70;

// -------------------------------------------------------------------------------------------------- prefill gives up

TEST_F(ShardAbortTest, prefill_aborts_before_the_offer) {
    Open it;
    it.world.prefill().abort(it.sender, "preempted");
    it.world.run();
    EXPECT_TRUE(it.world.prefill().quiesced(it.sender));
    it.accept();
    it.world.run();
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_ABORTED, "preempted", kPrefillRank);
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_PEER_ABORTED, "preempted", kPrefillRank);
    EXPECT_EQ(it.world.told(it.receiver), 1);
}

TEST_F(ShardAbortTest, prefill_aborts_after_the_offer) {
    Open it;
    it.accept();
    it.world.run();
    it.world.prefill().abort(it.sender, "preempted");
    it.world.run();
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_ABORTED, "preempted", kPrefillRank);
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_PEER_ABORTED, "preempted", kPrefillRank);
    EXPECT_TRUE(it.world.prefill().quiesced(it.sender));
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
    EXPECT_EQ(it.world.told(it.receiver), 1);
}

// The transport can neither cancel nor fence: its writes land when they do.
TEST_F(ShardAbortTest, prefill_aborts_with_writes_in_flight_and_pages_are_free_when_they_have_landed) {
    Open it("modest?slow=100");
    it.accept();
    it.send();
    it.world.run(0);
    ASSERT_NE(it.world.prefill().shard.counters().open_operations.load(), 0u);
    it.world.prefill().abort(it.sender, "preempted");
    it.world.run(10);
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_ABORTED, "preempted", kPrefillRank);
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_PEER_ABORTED, "preempted", kPrefillRank);
    EXPECT_FALSE(it.world.prefill().quiesced(it.sender));
    EXPECT_FALSE(it.world.decode().quiesced(it.receiver));
    EXPECT_EQ(it.world.prefill().close(it.sender), KVF_ERR_BUSY);
    EXPECT_EQ(it.world.decode().close(it.receiver), KVF_ERR_BUSY);
    it.world.run(200);
    EXPECT_TRUE(it.world.prefill().quiesced(it.sender));
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
    EXPECT_EQ(it.world.told(it.receiver), 1);
}

TEST_F(ShardAbortTest, a_transport_that_can_cancel_is_asked_to) {
    Open it("fault+memory?never=1");
    it.accept();
    it.send();
    it.world.run();
    ASSERT_NE(it.world.prefill().shard.counters().open_operations.load(), 0u);
    it.world.prefill().abort(it.sender);
    EXPECT_FALSE(it.world.prefill().quiesced(it.sender));
    it.world.run();
    EXPECT_TRUE(it.world.prefill().quiesced(it.sender));
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
}

// -------------------------------------------------------------------------------------------------- decode gives up

TEST_F(ShardAbortTest, decode_aborts_before_the_offer) {
    Open it;
    it.world.decode().abort(it.receiver, "disconnected");
    it.world.run();
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_ABORTED, "disconnected", kDecodeRank);
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_PEER_ABORTED, "disconnected", kDecodeRank);
    EXPECT_TRUE(it.world.prefill().quiesced(it.sender));
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
    EXPECT_EQ(it.world.told(it.receiver), 0);
}

TEST_F(ShardAbortTest, decode_aborts_before_prefill_has_opened_the_room) {
    for (const bool offered : {false, true}) {
        World world;
        const RoomHandle receiver = world.decode().open_receiver(7);
        world.run();
        if (offered)
            world.decode().accept(receiver, {pages(kKv, {1})});
        world.run();
        world.decode().abort(receiver, "disconnected");
        world.run();
        EXPECT_TRUE(world.decode().quiesced(receiver));
        const RoomHandle sender = world.prefill().open_sender(7);
        expect_failed(world.prefill(), sender, KVF_ERR_PEER_ABORTED, "disconnected", kDecodeRank);
        EXPECT_EQ(world.prefill().close(sender), KVF_OK);
        EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    }
}

TEST_F(ShardAbortTest, decode_aborts_while_it_looks_for_its_peer) {
    World world;
    world.findable = false;
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.run();
    ASSERT_EQ(world.seeks.size(), 1u);
    world.decode().abort(receiver, "disconnected");
    EXPECT_TRUE(world.decode().quiesced(receiver));
    world.run();
    EXPECT_TRUE(world.seeks.empty());
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    const RoomHandle sender = world.prefill().open_sender(7);
    EXPECT_EQ(world.prefill().code(sender), KVF_ERR_PEER_ABORTED);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
}

TEST_F(ShardAbortTest, decode_aborts_after_the_offer) {
    Open it;
    it.accept();
    it.world.run();
    it.world.decode().abort(it.receiver, "disconnected");
    EXPECT_FALSE(it.world.decode().quiesced(it.receiver));
    it.world.run();
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_ABORTED, "disconnected", kDecodeRank);
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_PEER_ABORTED, "disconnected", kDecodeRank);
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
    EXPECT_EQ(it.world.told(it.receiver), 0);
}

TEST_F(ShardAbortTest, decode_aborts_with_writes_in_flight_and_pages_are_free_when_prefill_says_so) {
    Open it("modest?slow=100");
    it.accept();
    it.send();
    it.world.run(0);
    ASSERT_EQ(it.world.decode().state(it.receiver), KVF_STATE_TRANSFERRING);
    it.world.decode().abort(it.receiver, "disconnected");
    it.world.run(10);
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_PEER_ABORTED, "disconnected", kDecodeRank);
    EXPECT_FALSE(it.world.prefill().quiesced(it.sender));
    EXPECT_FALSE(it.world.decode().quiesced(it.receiver));
    it.world.run(200);
    EXPECT_TRUE(it.world.prefill().quiesced(it.sender));
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
}

TEST_F(ShardAbortTest, an_abort_that_crosses_the_success_keeps_its_own_end) {
    Open it;
    it.accept();
    it.world.run();
    it.send();
    it.world.prefill().advance();
    it.world.prefill().advance();
    ASSERT_EQ(it.world.prefill().state(it.sender), KVF_STATE_SUCCESS);
    it.world.decode().abort(it.receiver, "disconnected");
    it.world.run();
    EXPECT_EQ(it.world.prefill().state(it.sender), KVF_STATE_SUCCESS);
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_ABORTED, "disconnected", kDecodeRank);
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
}

TEST_F(ShardAbortTest, both_sides_abort_and_each_keeps_its_own_cause) {
    Open it("modest?slow=30");
    it.accept();
    it.send();
    it.world.run(0);
    it.world.prefill().abort(it.sender, "preempted");
    it.world.decode().abort(it.receiver, "disconnected");
    it.world.run(100);
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_ABORTED, "preempted", kPrefillRank);
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_ABORTED, "disconnected", kDecodeRank);
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
}

TEST_F(ShardAbortTest, an_abort_by_one_receiver_ends_the_room_of_the_other) {
    World world({"memory", "modest?slow=30"});
    const RoomHandle sender = world.prefill().open_sender(7, 2);
    const RoomHandle first = world.decode(0).open_receiver(7);
    const RoomHandle second = world.decode(1).open_receiver(7);
    world.decode(0).accept(first, {pages(kKv, range(0, 4))});
    world.decode(1).accept(second, {pages(kKv, range(0, 4))});
    world.prefill().send(sender, {pages(kKv, range(0, 4))});
    world.run(0);
    world.decode(0).abort(first, "disconnected");
    world.run(100);
    expect_failed(world.prefill(), sender, KVF_ERR_PEER_ABORTED, "disconnected", kDecodeRank);
    expect_failed(world.decode(0), first, KVF_ERR_ABORTED, "disconnected", kDecodeRank);
    expect_failed(world.decode(1), second, KVF_ERR_PEER_ABORTED, "disconnected", kDecodeRank);
    EXPECT_EQ(world.told(first, 0), 0);
    EXPECT_EQ(world.told(second, 1), 1);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
    EXPECT_EQ(world.decode(0).close(first), KVF_OK);
    EXPECT_EQ(world.decode(1).close(second), KVF_OK);
}

TEST_F(ShardAbortTest, aborting_a_room_at_its_end_changes_nothing) {
    Open it;
    it.accept();
    it.send();
    it.world.run();
    it.world.prefill().abort(it.sender);
    it.world.decode().abort(it.receiver);
    it.world.run();
    EXPECT_EQ(it.world.prefill().state(it.sender), KVF_STATE_SUCCESS);
    EXPECT_EQ(it.world.decode().state(it.receiver), KVF_STATE_SUCCESS);
    EXPECT_TRUE(it.world.aborts.empty());
}

TEST_F(ShardAbortTest, what_is_sent_to_a_room_at_its_end_is_dropped) {
    Open it;
    it.world.prefill().abort(it.sender);
    it.world.decode().abort(it.receiver);
    it.accept();
    it.send();
    it.world.run();
    EXPECT_EQ(it.world.prefill().shard.counters().operations.load(), 0u);
    EXPECT_TRUE(it.world.offers.empty());
}

// ---------------------------------------------------------------------------------------------- a transport that fails

TEST_F(ShardAbortTest, a_failed_write_fails_the_room_on_both_sides_with_the_transports_reason) {
    Open it("fault+memory?fail=1");
    it.accept();
    it.send();
    it.world.run();
    const std::string message = "room 7: writing to decode0 over fault+memory: failed by the fault plugin";
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_TRANSPORT, message, kPrefillRank);
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_TRANSPORT, message, kPrefillRank);
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
    EXPECT_EQ(it.world.told(it.receiver), 1);
}

TEST_F(ShardAbortTest, the_first_failure_ends_the_room_though_others_are_in_flight) {
    for (int seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Open it("fault+memory?fail=0.3,reorder=0.5,polls=0-6,seed=" + std::to_string(seed), 8);
        it.accept();
        it.send();
        it.world.run();
        const bool failed = it.world.prefill().state(it.sender) == KVF_STATE_FAILED;
        EXPECT_TRUE(it.world.prefill().quiesced(it.sender));
        EXPECT_EQ(it.world.decode().code(it.receiver), failed ? KVF_ERR_TRANSPORT : KVF_OK);
        EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
    }
}

// -------------------------------------------------------------------------------------------------------------
// deadlines

TEST_F(ShardAbortTest, prefill_waits_for_offers_as_long_as_its_deadline) {
    Open it;
    it.world.pass(10 * kSecond - 1);
    EXPECT_EQ(it.world.prefill().state(it.sender), KVF_STATE_BOOTSTRAPPING);
    EXPECT_EQ(it.world.prefill().shard.next_deadline(), it.world.prefill().now + 1);
    it.world.pass(1);
    const std::string message = "room 7: 0 of 1 receivers offered their pages within 10000 ms";
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_BOOTSTRAP, message, kPrefillRank);
    it.accept();
    it.world.run();
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_BOOTSTRAP, message, kPrefillRank);
}

TEST_F(ShardAbortTest, prefill_waits_for_the_first_chunk_as_long_as_its_deadline) {
    Open it;
    it.accept();
    it.world.pass(20 * kSecond - 1);
    EXPECT_EQ(it.world.prefill().state(it.sender), KVF_STATE_WAITING);
    // Decode has waited since it found its peer.
    it.world.decode().now -= kSecond;
    it.world.pass(1);
    const std::string message = "room 7: no chunk was sent within 20000 ms";
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_WAIT_DEADLINE, message, kPrefillRank);
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_WAIT_DEADLINE, message, kPrefillRank);
    EXPECT_EQ(it.world.told(it.receiver), 1);
}

TEST_F(ShardAbortTest, prefill_lets_a_transfer_take_as_long_as_its_deadline) {
    Open it("fault+memory?never=1");
    it.accept();
    it.send();
    it.world.run();
    it.world.decode().now -= kSecond;
    it.world.pass(30 * kSecond);
    EXPECT_EQ(it.world.prefill().code(it.sender), KVF_ERR_TRANSFER_DEADLINE);
    EXPECT_NE(it.world.prefill().message(it.sender).find("the transfer did not end within 30000 ms: "),
              std::string::npos);
    EXPECT_NE(it.world.prefill().message(it.sender).find("operations in flight, the last chunk is"), std::string::npos);
    EXPECT_EQ(it.world.decode().code(it.receiver), KVF_ERR_TRANSFER_DEADLINE);
    EXPECT_EQ(it.world.decode().report(it.receiver).rank, kPrefillRank);
    EXPECT_TRUE(it.world.prefill().quiesced(it.sender));
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
}

TEST_F(ShardAbortTest, why_a_peer_is_not_found_is_in_the_report_until_it_is) {
    World world;
    world.findable = false;
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.run();
    world.decode().tell(PeerDelayed{receiver, "connection refused"});
    EXPECT_EQ(world.decode().message(receiver), "connection refused");
    world.find();
    world.run();
    EXPECT_EQ(world.decode().state(receiver), KVF_STATE_WAITING);
    EXPECT_EQ(world.decode().message(receiver), "");
    world.decode().tell(PeerDelayed{receiver, "connection refused"});
    EXPECT_EQ(world.decode().message(receiver), "");
    world.decode().abort(receiver);
    world.run();
    EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    EXPECT_EQ(world.prefill().close(world.prefill().open_sender(7)), KVF_OK);
}

TEST_F(ShardAbortTest, decode_looks_for_its_peer_as_long_as_its_deadline) {
    for (const bool delayed : {false, true}) {
        World world;
        world.findable = false;
        const RoomHandle receiver = world.decode().open_receiver(7);
        world.run();
        if (delayed)
            world.decode().tell(PeerDelayed{receiver, "connection refused"});
        EXPECT_EQ(world.decode().message(receiver), delayed ? "connection refused" : "");
        world.pass(10 * kSecond - 1);
        EXPECT_EQ(world.decode().state(receiver), KVF_STATE_BOOTSTRAPPING);
        world.pass(1);
        expect_failed(world.decode(), receiver, KVF_ERR_BOOTSTRAP,
                      std::string("room 7: no agreement with prefill prefill within 10000 ms: ") +
                          (delayed ? "connection refused" : "it has not answered"),
                      kDecodeRank);
        EXPECT_TRUE(world.decode().quiesced(receiver));
        EXPECT_EQ(world.decode().close(receiver), KVF_OK);
        world.pass(15 * kSecond);
    }
}

TEST_F(ShardAbortTest, decode_waits_for_the_begin_as_long_as_its_deadline) {
    for (const bool accepted : {false, true}) {
        World world;
        world.prefill().deadlines.bootstrap_ns = kNever;
        world.prefill().deadlines.waiting_ns = kNever;
        const RoomHandle sender = world.prefill().open_sender(7);
        const RoomHandle receiver = world.decode().open_receiver(7);
        world.run();
        if (accepted)
            world.decode().accept(receiver, {pages(kKv, {1})});
        world.pass(20 * kSecond);
        const std::string message = accepted ? "room 7: the transfer did not begin within 20000 ms"
                                             : "room 7: no pages were accepted within 20000 ms";
        expect_failed(world.decode(), receiver, KVF_ERR_WAIT_DEADLINE, message, kDecodeRank);
        expect_failed(world.prefill(), sender, KVF_ERR_WAIT_DEADLINE, message, kDecodeRank);
        EXPECT_EQ(world.prefill().close(sender), KVF_OK);
        EXPECT_EQ(world.decode().close(receiver), KVF_OK);
    }
}

TEST_F(ShardAbortTest, decode_lets_a_transfer_take_as_long_as_its_deadline) {
    Open it("fault+memory?never=1");
    it.accept();
    it.send();
    it.world.run();
    it.world.prefill().now -= kSecond;
    it.world.pass(30 * kSecond);
    const std::string message = "room 7: the transfer did not end within 30000 ms";
    expect_failed(it.world.decode(), it.receiver, KVF_ERR_TRANSFER_DEADLINE, message, kDecodeRank);
    expect_failed(it.world.prefill(), it.sender, KVF_ERR_TRANSFER_DEADLINE, message, kDecodeRank);
    EXPECT_TRUE(it.world.decode().quiesced(it.receiver));
    EXPECT_EQ(it.world.told(it.receiver), 0);
}

TEST_F(ShardAbortTest, each_phase_has_its_deadline_anew) {
    Open it;
    it.world.pass(9 * kSecond);
    it.accept();
    it.world.pass(10 * kSecond);
    it.send(false);
    it.world.pass(29 * kSecond);
    it.world.prefill().send(it.sender, {});
    it.world.run();
    EXPECT_EQ(it.world.prefill().state(it.sender), KVF_STATE_SUCCESS);
    EXPECT_EQ(it.world.decode().state(it.receiver), KVF_STATE_SUCCESS);
    it.world.pass(1000 * kSecond);
    EXPECT_EQ(it.world.decode().state(it.receiver), KVF_STATE_SUCCESS);
}

TEST_F(ShardAbortTest, a_deadline_beyond_the_end_of_time_never_passes) {
    World world;
    world.prefill().deadlines = world.decode().deadlines = {kNever, kNever, kNever};
    const RoomHandle sender = world.prefill().open_sender(7);
    EXPECT_EQ(world.prefill().shard.next_deadline(), kNever);
    world.pass(kNever / 2);
    EXPECT_EQ(world.prefill().state(sender), KVF_STATE_BOOTSTRAPPING);
    world.prefill().abort(sender);
    EXPECT_EQ(world.prefill().close(sender), KVF_OK);
}

// ---------------------------------------------------------------------------------------------------------- closed
// early

TEST_F(ShardAbortTest, a_handle_given_up_early_aborts_its_room_and_frees_it) {
    for (const bool by_sender : {true, false}) {
        World world({"modest?slow=100"});
        const RoomHandle sender = world.prefill().open_sender(7);
        const RoomHandle receiver = world.decode().open_receiver(7);
        world.decode().accept(receiver, {pages(kKv, range(0, 3))});
        world.prefill().send(sender, {pages(kKv, range(0, 3))});
        world.run(0);
        if (by_sender)
            world.prefill().close_deferred(sender);
        else
            world.decode().close_deferred(receiver);
        world.run(5);
        // In use until its writes have landed.
        EXPECT_FALSE(world.prefill().stale(sender));
        EXPECT_FALSE(world.decode().stale(receiver));
        world.run(200);
        EXPECT_EQ(world.prefill().stale(sender), by_sender);
        EXPECT_EQ(world.decode().stale(receiver), !by_sender);
        if (by_sender) {
            expect_failed(world.decode(), receiver, KVF_ERR_PEER_ABORTED, "closed before its end", kPrefillRank);
            EXPECT_EQ(world.decode().close(receiver), KVF_OK);
        } else {
            expect_failed(world.prefill(), sender, KVF_ERR_PEER_ABORTED, "closed before its end", kDecodeRank);
            EXPECT_EQ(world.prefill().close(sender), KVF_OK);
        }
    }
}

TEST_F(ShardAbortTest, a_handle_given_up_at_the_end_is_freed_at_once) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    const RoomHandle receiver = world.decode().open_receiver(7);
    world.decode().accept(receiver, {pages(kKv, {1})});
    world.prefill().send(sender, {pages(kKv, {2})});
    world.run();
    world.prefill().close_deferred(sender);
    world.decode().close_deferred(receiver);
    EXPECT_TRUE(world.prefill().stale(sender));
    EXPECT_TRUE(world.decode().stale(receiver));
    world.expect_arrived(kKv, {2}, {1});
}

TEST_F(ShardAbortTest, a_handle_given_up_twice_is_freed_once) {
    World world;
    const RoomHandle sender = world.prefill().open_sender(7);
    EXPECT_EQ(world.prefill().close(sender), KVF_ERR_BUSY);
    world.prefill().close_deferred(sender);
    world.prefill().close_deferred(sender);
    EXPECT_TRUE(world.prefill().stale(sender));
    EXPECT_EQ(world.prefill().close(sender), KVF_ERR_STALE);
    const RoomHandle next = world.prefill().open_sender(7);
    world.prefill().close_deferred(sender);
    EXPECT_FALSE(world.prefill().stale(next));
    world.prefill().close_deferred(next);
}

} // namespace
} // namespace kvf
