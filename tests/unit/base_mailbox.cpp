// The mailbox: order, ownership, and who has to wake the consumer.
#include "base/mailbox.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

namespace kvf {
namespace {

std::vector<int> take_all(Mailbox<int> &box) {
    std::vector<int> out;
    auto batch = box.take();
    while (const int *item = batch.next())
        out.push_back(*item);
    return out;
}

TEST(MailboxTest, items_come_out_in_the_order_they_went_in) {
    Mailbox<int> box;
    for (int i = 0; i < 5; ++i)
        EXPECT_FALSE(box.push(int{i}));
    EXPECT_EQ(take_all(box), (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_TRUE(take_all(box).empty());
    EXPECT_FALSE(box.push(5));
    EXPECT_EQ(take_all(box), std::vector<int>{5});
}

TEST(MailboxTest, items_that_can_only_be_moved_pass_through) {
    Mailbox<std::unique_ptr<int>> box;
    EXPECT_FALSE(box.push(std::make_unique<int>(7)));
    auto batch = box.take();
    const std::unique_ptr<int> *item = batch.next();
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(**item, 7);
    EXPECT_EQ(batch.next(), nullptr);
}

TEST(MailboxTest, what_nobody_takes_is_freed) {
    const auto counted = std::make_shared<int>(0);
    {
        Mailbox<std::shared_ptr<int>> box;
        for (int i = 0; i < 3; ++i)
            EXPECT_FALSE(box.push(std::shared_ptr<int>(counted)));
        {
            auto batch = box.take();
            ASSERT_NE(batch.next(), nullptr);
            EXPECT_EQ(counted.use_count(), 4);
        }
        EXPECT_EQ(counted.use_count(), 1);
        EXPECT_FALSE(box.push(std::shared_ptr<int>(counted)));
        EXPECT_EQ(counted.use_count(), 2);
    }
    EXPECT_EQ(counted.use_count(), 1);
}

TEST(MailboxTest, only_the_push_that_finds_the_consumer_asleep_has_to_wake_it) {
    Mailbox<int> box;
    EXPECT_FALSE(box.push(1));
    EXPECT_EQ(take_all(box), std::vector<int>{1});
    EXPECT_TRUE(box.prepare_sleep());
    EXPECT_TRUE(box.push(2));
    EXPECT_FALSE(box.push(3));
    EXPECT_EQ(take_all(box), (std::vector<int>{2, 3}));
    EXPECT_FALSE(box.push(4));
}

TEST(MailboxTest, a_consumer_with_something_to_take_does_not_sleep) {
    Mailbox<int> box;
    EXPECT_FALSE(box.push(1));
    EXPECT_FALSE(box.prepare_sleep());
    EXPECT_EQ(take_all(box), std::vector<int>{1});
    EXPECT_TRUE(box.prepare_sleep());
}

TEST(MailboxTest, the_mark_stands_until_it_is_taken_back) {
    Mailbox<int> box;
    EXPECT_TRUE(box.prepare_sleep());
    EXPECT_TRUE(box.prepare_sleep());
    EXPECT_TRUE(take_all(box).empty());
    EXPECT_FALSE(box.push(1));
    EXPECT_EQ(take_all(box), std::vector<int>{1});
}

// The consumer sleeps on a descriptor, as shards do; a wake that got lost would leave it there.
TEST(MailboxTest, many_producers_lose_nothing_keep_their_order_and_wake_a_sleeper_once) {
    constexpr uint32_t kProducers = 4;
    constexpr uint32_t kItems = 20000;
    struct Item {
        uint32_t producer, number;
    };
    Mailbox<Item> box;
    const int wake = eventfd(0, EFD_CLOEXEC);
    ASSERT_GE(wake, 0);
    std::atomic<uint64_t> wakes{0};

    std::vector<std::thread> producers;
    for (uint32_t producer = 0; producer < kProducers; ++producer)
        producers.emplace_back([&, producer] {
            for (uint32_t i = 0; i < kItems; ++i)
                if (box.push({producer, i})) {
                    wakes.fetch_add(1);
                    eventfd_write(wake, 1);
                }
        });

    uint64_t sleeps = 0;
    uint64_t woken = 0;
    uint32_t next[kProducers] = {};
    for (uint32_t taken = 0; taken < kProducers * kItems;) {
        auto batch = box.take();
        const Item *item = batch.next();
        if (!item && box.prepare_sleep()) {
            ++sleeps;
            eventfd_t value = 0;
            ASSERT_EQ(eventfd_read(wake, &value), 0);
            woken += value;
        }
        for (; item; item = batch.next(), ++taken)
            ASSERT_EQ(item->number, next[item->producer]++) << "of producer " << item->producer;
    }
    for (std::thread &producer : producers)
        producer.join();
    EXPECT_EQ(woken, sleeps);
    EXPECT_EQ(wakes.load(), sleeps);
    EXPECT_TRUE(box.prepare_sleep());
    close(wake);
}

} // namespace
} // namespace kvf
