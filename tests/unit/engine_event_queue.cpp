// The event queue: each slot at most once, and a descriptor that is readable exactly while slots wait.
#include "engine/event_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>
#include <vector>

namespace kvf {
namespace {

class EventQueueTest : public testing::Test {
  protected:
    static std::unique_ptr<EventQueue> created(uint32_t slots) {
        std::unique_ptr<EventQueue> out;
        EXPECT_TRUE(EventQueue::create(slots, &out).ok());
        return out;
    }

    static bool readable(const EventQueue &queue, int timeout_ms = 0) {
        pollfd polled{queue.descriptor(), POLLIN, 0};
        return poll(&polled, 1, timeout_ms) == 1;
    }

    static std::vector<uint32_t> take(EventQueue &queue, size_t most = SIZE_MAX) {
        std::vector<uint32_t> out;
        uint32_t slot = 0;
        queue.begin();
        while (out.size() < most && queue.pop(&slot))
            out.push_back(slot);
        queue.end();
        return out;
    }

    const std::unique_ptr<EventQueue> queue_ = created(8);
};

TEST_F(EventQueueTest, slots_come_out_in_order) {
    for (const uint32_t slot : {3u, 1u, 7u})
        queue_->push(slot);
    EXPECT_EQ(take(*queue_), (std::vector<uint32_t>{3, 1, 7}));
    EXPECT_TRUE(take(*queue_).empty());
}

TEST_F(EventQueueTest, several_changes_of_a_slot_are_one_event) {
    queue_->push(3);
    queue_->push(4);
    queue_->push(3);
    EXPECT_EQ(take(*queue_), (std::vector<uint32_t>{3, 4}));
    queue_->push(3);
    EXPECT_EQ(take(*queue_), std::vector<uint32_t>{3});
}

TEST_F(EventQueueTest, the_descriptor_is_readable_exactly_while_slots_wait) {
    EXPECT_FALSE(readable(*queue_));
    for (int round = 0; round < 3; ++round) {
        queue_->push(1);
        EXPECT_TRUE(readable(*queue_));
        queue_->push(2);
        EXPECT_TRUE(readable(*queue_));
        EXPECT_EQ(take(*queue_, 1).size(), 1u);
        EXPECT_TRUE(readable(*queue_));
        EXPECT_TRUE(take(*queue_, 0).empty());
        EXPECT_TRUE(readable(*queue_));
        EXPECT_EQ(take(*queue_, 1).size(), 1u);
        EXPECT_FALSE(readable(*queue_));
        EXPECT_TRUE(take(*queue_).empty());
        EXPECT_FALSE(readable(*queue_));
    }
}

TEST_F(EventQueueTest, what_is_pushed_and_taken_in_one_turn_leaves_nothing_readable) {
    uint32_t slot = 0;
    queue_->begin();
    queue_->push(5);
    EXPECT_TRUE(queue_->pop(&slot));
    queue_->end();
    EXPECT_FALSE(readable(*queue_));
    queue_->push(5);
    EXPECT_TRUE(readable(*queue_));
}

TEST_F(EventQueueTest, every_slot_may_wait_at_once) {
    for (const uint32_t slots : {1u, 2u, 3u, 8u}) {
        const auto queue = created(slots);
        for (int round = 0; round < 5; ++round) {
            for (uint32_t slot = 0; slot < slots; ++slot) {
                queue->push(slot);
                queue->push(slot);
            }
            EXPECT_EQ(take(*queue).size(), slots);
            EXPECT_FALSE(readable(*queue));
        }
    }
}

// Shards write numbers and push; a consumer that sleeps on the descriptor must see the last number of every slot.
TEST_F(EventQueueTest, a_consumer_that_sleeps_on_the_descriptor_misses_no_change) {
    constexpr uint32_t kSlots = 8;
    constexpr uint32_t kShards = 2;
    constexpr uint64_t kChanges = 20000;
    std::atomic<uint64_t> words[kSlots] = {};
    std::vector<std::thread> shards;
    for (uint32_t shard = 0; shard < kShards; ++shard)
        shards.emplace_back([&, shard] {
            for (uint64_t i = 1; i <= kChanges; ++i) {
                const auto slot = static_cast<uint32_t>(i % (kSlots / kShards) * kShards + shard);
                words[slot].store(i, std::memory_order_release);
                queue_->push(slot);
            }
        });

    uint64_t seen[kSlots] = {};
    const auto finished = [&] {
        uint32_t done = 0;
        for (const uint64_t word : seen)
            done += word > kChanges - kSlots / kShards ? 1 : 0;
        return done == kSlots;
    };
    while (!finished()) {
        ASSERT_TRUE(readable(*queue_, 60'000));
        queue_->begin();
        uint32_t slot = 0;
        while (queue_->pop(&slot)) {
            const uint64_t word = words[slot].load(std::memory_order_acquire);
            EXPECT_GE(word, seen[slot]);
            seen[slot] = word;
        }
        queue_->end();
    }
    for (std::thread &shard : shards)
        shard.join();
    take(*queue_);
    EXPECT_FALSE(readable(*queue_));
}

TEST_F(EventQueueTest, consumers_share_the_slots_and_none_is_seen_twice) {
    constexpr uint32_t kSlots = 4096;
    const auto queue = created(kSlots);
    for (uint32_t slot = 0; slot < kSlots; ++slot)
        queue->push(slot);
    std::atomic<uint32_t> seen[kSlots] = {};
    std::vector<std::thread> consumers;
    for (int i = 0; i < 4; ++i)
        consumers.emplace_back([&] {
            for (std::vector<uint32_t> got = take(*queue, 7); !got.empty(); got = take(*queue, 7))
                for (const uint32_t slot : got)
                    ++seen[slot];
        });
    for (std::thread &consumer : consumers)
        consumer.join();
    for (const auto &count : seen)
        EXPECT_EQ(count.load(), 1u);
}

} // namespace
} // namespace kvf
