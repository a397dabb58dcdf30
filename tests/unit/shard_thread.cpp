// The thread around a shard, with callers and a control plane that are the test's.
#include "engine/shard_thread.h"

#include "shard_world.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include <functional>

namespace kvf {
namespace {

constexpr uint64_t kLongNs = 60 * kSecond;

class ShardThreadTest : public ShardTest {
  protected:
    ShardThreadTest() {
        EXPECT_TRUE(EventQueue::create(8, &events_).ok());
        EXPECT_TRUE(ShardThread::create(
                        {}, 8, table_, *events_, [this](ToControl &&said) { said_(std::move(said)); }, &shard_)
                        .ok());
        EXPECT_TRUE(Transport::open("memory", "", 1, &transport_).ok());
        link_ = std::make_shared<const Link>(1, 2, 0, "decode", transport_, nullptr, [] {});
    }

    // A room with its receiver, whose only chunk has no pages and that fence.
    RoomHandle send_behind(int fence) {
        OpenSender open;
        EXPECT_TRUE(table_.open(RoomRole::kSender, 7, {}, &open.room).ok());
        const RoomHandle room = open.room;
        open.room_id = 7;
        open.deadlines = {kLongNs, kLongNs, kLongNs};
        shard_->push(std::move(open));
        shard_->push(OfferCame{link_, std::make_shared<const Routes>(), 7, 70, 0, {}});
        auto chunk = std::make_unique<Chunk>();
        chunk->last = true;
        chunk->fence = OwnedFd(fence);
        shard_->push(SendChunk{room, std::move(chunk)});
        return room;
    }

    RoomWord end_of(RoomHandle room) {
        RoomWord word;
        for (const uint64_t until = monotonic_ns() + kLongNs; monotonic_ns() < until;) {
            EXPECT_EQ(table_.load(room, &word), KVF_OK);
            if (word.ended())
                break;
            table_.wait(room, word, kLongNs);
        }
        return word;
    }

    RoomTable table_{8, 1, 1};
    std::function<void(ToControl &&)> said_ = [](ToControl &&) {};
    std::unique_ptr<EventQueue> events_;
    std::shared_ptr<Transport> transport_;
    LinkRef link_;
    std::unique_ptr<ShardThread> shard_;
};

// A peer whose every answer is another question: there is something in the inbox in each turn.
TEST_F(ShardThreadTest, a_fence_is_seen_to_have_fired_by_a_shard_that_never_sleeps) {
    const OwnedFd fence(eventfd(0, EFD_CLOEXEC));
    std::atomic<bool> busy{true};
    std::atomic<uint64_t> answers{0};
    const auto ask = [&] { shard_->push(AbortCame{1, 2, 99, 990, true, {}}); };
    said_ = [&](ToControl &&said) {
        if (!std::holds_alternative<SendDrained>(said))
            return;
        ++answers;
        if (busy)
            ask();
    };
    shard_->start();
    ask();
    const RoomHandle room = send_behind(dup(fence.get()));
    // By then the shard has looked at the chunk.
    while (answers < 1000)
        std::this_thread::yield();
    eventfd_write(fence.get(), 1);
    EXPECT_EQ(end_of(room).state(), KVF_STATE_SUCCESS);
    busy = false;
    shard_->stop();
}

TEST_F(ShardThreadTest, a_fence_that_can_not_be_watched_fails_the_room) {
    shard_->start();
    const RoomHandle room = send_behind(memfd_create("fence", MFD_CLOEXEC));
    EXPECT_EQ(end_of(room).code(), KVF_ERR_INVALID);
    kvf_report report{};
    EXPECT_EQ(table_.report(room, &report), KVF_OK);
    EXPECT_NE(std::string(report.message).find("room 7: a chunk's fence: a file of its kind"), std::string::npos)
        << report.message;
    shard_->stop();
}

TEST_F(ShardThreadTest, what_is_in_the_inbox_when_the_thread_is_stopped_is_handled) {
    OpenSender open;
    EXPECT_TRUE(table_.open(RoomRole::kSender, 7, {}, &open.room).ok());
    const RoomHandle room = open.room;
    open.deadlines = {kLongNs, kLongNs, kLongNs};
    shard_->push(std::move(open));
    shard_->start();
    shard_->push(AbortRoom{room, "late"});
    shard_->stop();
    RoomWord word;
    EXPECT_EQ(table_.load(room, &word), KVF_OK);
    EXPECT_EQ(word.code(), KVF_ERR_ABORTED);
}

} // namespace
} // namespace kvf
