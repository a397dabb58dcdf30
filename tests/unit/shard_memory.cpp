// A shard without memory: whichever allocation fails, nothing is thrown, and the room that it was for has an end.
#include "shard_world.h"
#include "starved.h"

namespace kvf {
namespace {

using ShardMemoryTest = ShardTest;

// The steps of prefill's shard, one of which is short of memory.
enum Step { kOpen, kSend, kAdvance, kAbort, kLost, kDeadline, kSteps };

// A room, told by both sides.
class Story {
  public:
    explicit Story(int allocation) : allocation_(allocation) {}

    // False when the step needs fewer allocations.
    bool play(Step short_of_memory) {
        step_ = short_of_memory;
        receiver_ = decode().open_receiver(7);
        decode().accept(receiver_, {pages(kKv, range(0, 4))});
        world_.run();
        open();
        // A room that is to fail waits for more.
        SendChunk send{sender_, std::make_unique<Chunk>()};
        send.chunk->last = !fails();
        send.chunk->lists = {pages(kKv, range(4, fails() ? 1 : 4))};
        at(kSend, [&] { prefill().shard.handle(std::move(send), prefill().now); });
        at(kAdvance, [&] { prefill().shard.advance(prefill().now); });
        world_.run();
        AbortRoom abort{sender_, "cancelled, for a reason of some length"};
        if (step_ == kAbort)
            at(kAbort, [&] { prefill().shard.handle(std::move(abort), prefill().now); });
        LinkLost lost{world_.link_at_prefill(), {KVF_ERR_PEER_LOST, 3, "the connection is gone, it seems"}};
        if (step_ == kLost)
            at(kLost, [&] { prefill().shard.handle(std::move(lost), prefill().now); });
        if (step_ == kDeadline)
            at(kDeadline, [&] { prefill().shard.advance(prefill().now + 30 * kSecond); });
        lost.link.reset();
        end();
        return hit_;
    }

  private:
    Side &prefill() { return world_.prefill(); }
    Side &decode() { return world_.decode(); }

    bool fails() const { return step_ == kAbort || step_ == kLost || step_ == kDeadline; }

    template <typename Act>
    void at(Step step, Act act) {
        if (step == step_)
            hit_ = starved(allocation_, act);
        else
            act();
    }

    void open() {
        OpenSender open;
        EXPECT_TRUE(prefill().table.open(RoomRole::kSender, 7, {}, &open.room).ok());
        open.room_id = 7;
        open.deadlines = prefill().deadlines;
        sender_ = open.room;
        at(kOpen, [&] { prefill().shard.handle(std::move(open), prefill().now); });
    }

    void end() {
        world_.run();
        world_.pass(61 * kSecond);
        const RoomWord word = prefill().word(sender_);
        EXPECT_TRUE(word.ended() && word.quiesced());
        if (!fails()) {
            EXPECT_TRUE(word.code() == KVF_OK || word.code() == KVF_ERR_NO_MEMORY) << word.code();
            if (word.code() == KVF_OK && decode().code(receiver_) == KVF_OK)
                world_.expect_arrived(kKv, range(4, 4), range(0, 4));
        }
        EXPECT_TRUE(decode().word(receiver_).ended());
        EXPECT_EQ(prefill().close(sender_), KVF_OK);
        if (decode().quiesced(receiver_)) {
            EXPECT_EQ(decode().close(receiver_), KVF_OK);
        } else {
            // The word that nothing is in flight was lost for want of memory: the end of the link says it.
            world_.lose(0);
            world_.run();
            EXPECT_EQ(decode().close(receiver_), KVF_OK);
        }
        world_.pass(15 * kSecond);
    }

    const int allocation_;
    Step step_ = kSteps;
    bool hit_ = false;
    World world_;
    RoomHandle sender_, receiver_;
};

TEST_F(ShardMemoryTest, whichever_allocation_fails_the_room_ends_and_the_shard_goes_on) {
    for (int step = kOpen; step < kSteps; ++step)
        for (int allocation = 0;; ++allocation) {
            SCOPED_TRACE(testing::Message() << "step " << step << ", allocation " << allocation);
            ASSERT_LT(allocation, 200);
            if (!Story(allocation).play(static_cast<Step>(step)))
                break;
            if (HasFailure())
                return;
        }
}

TEST_F(ShardMemoryTest, a_room_that_there_was_no_memory_to_make_fails_and_its_slot_comes_back) {
    World world;
    Side &side = world.prefill();
    for (const bool deferred : {false, true}) {
        OpenSender open;
        ASSERT_TRUE(side.table.open(RoomRole::kSender, 7, {}, &open.room).ok());
        const RoomHandle room = open.room;
        EXPECT_TRUE(starved(0, [&] { side.shard.handle(std::move(open), side.now); }));
        side.advance();
        EXPECT_EQ(side.code(room), KVF_ERR_NO_MEMORY);
        EXPECT_TRUE(side.quiesced(room));
        if (deferred)
            side.close_deferred(room);
        else
            EXPECT_EQ(side.close(room), KVF_OK);
        EXPECT_TRUE(side.stale(room));
    }
    EXPECT_EQ(side.table.open_rooms(), 0u);
}

} // namespace
} // namespace kvf
