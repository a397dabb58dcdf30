// Offers that wait for their room, and the ends that late offers are answered with.
#include "room/unclaimed.h"

#include <gtest/gtest.h>

namespace kvf {
namespace {

class UnclaimedTest : public testing::Test {
  protected:
    static LinkRef link_of(uint64_t instance) {
        return std::make_shared<const Link>(instance + 1000, instance, 0, "decode", nullptr, nullptr, [] {});
    }

    static OfferCame offer(uint64_t room_id, uint64_t receiver, const LinkRef &link) {
        OfferCame out;
        out.link = link;
        out.room_id = room_id;
        out.receiver = receiver;
        return out;
    }

    static AbortCame abort(uint64_t room_id, uint64_t receiver, uint64_t instance) {
        AbortCame out;
        out.instance = instance;
        out.room_id = room_id;
        out.receiver = receiver;
        out.cause = {KVF_ERR_ABORTED, 3, "cancelled"};
        return out;
    }

    // The receivers of a room's entries, in the order in which they are given out.
    std::vector<uint64_t> claimed(uint64_t room_id) {
        std::vector<uint64_t> out;
        for (const Unclaimed::Entry &entry : unclaimed_.claim(room_id))
            out.push_back(entry.receiver);
        return out;
    }

    static OfferCame large(uint64_t room_id, const LinkRef &link, size_t bytes) {
        OfferCame out = offer(room_id, room_id, link);
        PageRuns &list = out.lists.emplace_back();
        for (uint32_t page = 0; list.bytes() < bytes; page += 2)
            list.append(page, 1);
        return out;
    }

    static std::vector<uint64_t> rooms(const std::vector<Unclaimed::Entry> &entries) {
        std::vector<uint64_t> out;
        for (const Unclaimed::Entry &entry : entries)
            out.push_back(entry.room_id);
        return out;
    }

    const LinkRef link_ = link_of(1);
    Unclaimed unclaimed_{4, 4'000'000};
};

TEST_F(UnclaimedTest, a_rooms_entries_are_given_out_once_and_no_others) {
    EXPECT_TRUE(unclaimed_.add(offer(7, 70, link_), 10).empty());
    EXPECT_TRUE(unclaimed_.add(offer(8, 80, link_), 11).empty());
    EXPECT_TRUE(unclaimed_.add_abort(abort(7, 71, 1), 12).empty());
    const auto entries = unclaimed_.claim(7);
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_TRUE(entries[0].offer);
    EXPECT_FALSE(entries[1].offer);
    EXPECT_EQ(entries[1].cause.sentence, "cancelled");
    EXPECT_TRUE(unclaimed_.claim(7).empty());
    EXPECT_EQ(unclaimed_.size(), 1u);
    EXPECT_EQ(claimed(8), std::vector<uint64_t>{80});
    EXPECT_EQ(unclaimed_.oldest_ns(), UINT64_MAX);
}

TEST_F(UnclaimedTest, entries_are_given_out_in_the_order_they_came_also_those_of_one_moment) {
    for (uint64_t receiver = 1; receiver <= 4; ++receiver)
        EXPECT_TRUE(unclaimed_.add(offer(7, receiver, link_), 10).empty());
    EXPECT_EQ(claimed(7), (std::vector<uint64_t>{1, 2, 3, 4}));
}

TEST_F(UnclaimedTest, the_oldest_makes_room_for_what_comes_beyond_the_cap) {
    for (uint64_t receiver = 1; receiver <= 4; ++receiver)
        EXPECT_TRUE(unclaimed_.add(offer(receiver, receiver, link_), receiver).empty());
    const auto first = unclaimed_.add(offer(5, 5, link_), 5);
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(first[0].receiver, 1u);
    EXPECT_TRUE(first[0].offer);
    const auto second = unclaimed_.add_abort(abort(6, 6, 1), 6);
    ASSERT_EQ(second.size(), 1u);
    EXPECT_EQ(second[0].receiver, 2u);
    EXPECT_EQ(unclaimed_.size(), 4u);
    EXPECT_TRUE(unclaimed_.claim(1).empty());
    EXPECT_EQ(unclaimed_.oldest_ns(), 3u);
}

TEST_F(UnclaimedTest, the_instance_that_holds_most_gives_way_and_no_other) {
    const LinkRef flood = link_of(2);
    EXPECT_TRUE(unclaimed_.add(offer(7, 70, link_), 1).empty());
    for (uint64_t room = 11; room <= 13; ++room)
        EXPECT_TRUE(unclaimed_.add(offer(room, room, flood), room).empty());
    EXPECT_EQ(rooms(unclaimed_.add(offer(14, 14, flood), 14)), std::vector<uint64_t>{11});
    EXPECT_EQ(rooms(unclaimed_.add_abort(abort(15, 15, 2), 15)), std::vector<uint64_t>{12});
    EXPECT_EQ(rooms(unclaimed_.add(offer(8, 80, link_), 16)), std::vector<uint64_t>{13});
    EXPECT_EQ(claimed(7), std::vector<uint64_t>{70});
    EXPECT_EQ(claimed(8), std::vector<uint64_t>{80});
    EXPECT_EQ(unclaimed_.size(), 2u);
}

// Vectors double: of 1 and of 2 MiB.
TEST_F(UnclaimedTest, bytes_are_bounded_whatever_the_number) {
    const LinkRef flood = link_of(2);
    EXPECT_TRUE(unclaimed_.add(large(1, link_, 1'000'000), 1).empty());
    EXPECT_TRUE(unclaimed_.add(large(2, flood, 2'000'000), 2).empty());
    EXPECT_EQ(rooms(unclaimed_.add(large(3, flood, 1'000'000), 3)), std::vector<uint64_t>{2});
    EXPECT_TRUE(unclaimed_.add(large(4, link_, 1'000'000), 4).empty());
    // What is larger than all that there may be does not stay.
    EXPECT_EQ(rooms(unclaimed_.add(large(5, flood, 4'000'000), 5)), (std::vector<uint64_t>{3, 5}));
    EXPECT_EQ(unclaimed_.size(), 2u);
}

TEST_F(UnclaimedTest, what_goes_makes_room) {
    for (uint64_t room = 1; room <= 20; ++room) {
        EXPECT_TRUE(unclaimed_.add(large(room, link_, 2'000'000), room).empty());
        if (room % 2 == 0)
            unclaimed_.claim(room);
        else
            unclaimed_.expired(room);
    }
    EXPECT_EQ(unclaimed_.size(), 0u);
}

TEST_F(UnclaimedTest, a_retracted_offer_gives_its_bytes_back) {
    EXPECT_TRUE(unclaimed_.add(large(1, link_, 2'000'000), 1).empty());
    EXPECT_TRUE(unclaimed_.retract(abort(1, 1, 1)));
    EXPECT_TRUE(unclaimed_.add(large(2, link_, 2'000'000), 2).empty());
    EXPECT_EQ(unclaimed_.size(), 2u);
}

TEST_F(UnclaimedTest, a_lost_offer_gives_its_bytes_back) {
    EXPECT_TRUE(unclaimed_.add(large(1, link_, 2'000'000), 1).empty());
    unclaimed_.lost(link_, {KVF_ERR_PEER_LOST, -1, "gone"});
    EXPECT_TRUE(unclaimed_.add(large(2, link_, 2'000'000), 2).empty());
    EXPECT_EQ(unclaimed_.size(), 2u);
}

TEST_F(UnclaimedTest, what_is_too_old_comes_out_oldest_first) {
    unclaimed_.add(offer(1, 1, link_), 10);
    unclaimed_.add(offer(2, 2, link_), 20);
    unclaimed_.add(offer(3, 3, link_), 30);
    EXPECT_FALSE(unclaimed_.expired(9));
    EXPECT_EQ(unclaimed_.expired(20)->receiver, 1u);
    EXPECT_EQ(unclaimed_.expired(20)->receiver, 2u);
    EXPECT_FALSE(unclaimed_.expired(20));
    EXPECT_EQ(unclaimed_.size(), 1u);
}

TEST_F(UnclaimedTest, a_retracted_offer_is_still_news_for_the_room) {
    unclaimed_.add(offer(7, 70, link_), 10);
    unclaimed_.add(offer(7, 71, link_), 11);
    EXPECT_TRUE(unclaimed_.retract(abort(7, 70, 1)));
    const auto entries = unclaimed_.claim(7);
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_FALSE(entries[0].offer);
    EXPECT_EQ(entries[0].cause.code, KVF_ERR_ABORTED);
    EXPECT_TRUE(entries[1].offer);
}

TEST_F(UnclaimedTest, only_its_own_receiver_retracts_an_offer) {
    unclaimed_.add(offer(7, 70, link_), 10);
    EXPECT_FALSE(unclaimed_.retract(abort(8, 70, 1)));
    EXPECT_FALSE(unclaimed_.retract(abort(7, 71, 1)));
    EXPECT_FALSE(unclaimed_.retract(abort(7, 70, 2)));
    EXPECT_TRUE(unclaimed_.claim(7)[0].offer);
}

TEST_F(UnclaimedTest, who_offered_over_a_lost_link_gave_up_for_its_cause) {
    unclaimed_.add(offer(7, 70, link_), 10);
    unclaimed_.lost(link_, {KVF_ERR_PEER_LOST, 3, "gone"});
    EXPECT_EQ(link_.use_count(), 1);
    EXPECT_EQ(unclaimed_.size(), 1u);
    const auto entries = unclaimed_.claim(7);
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_FALSE(entries[0].offer);
    EXPECT_EQ(entries[0].cause.code, KVF_ERR_PEER_LOST);
    EXPECT_EQ(entries[0].cause.rank, 3);
    EXPECT_EQ(entries[0].cause.sentence, "gone");
}

TEST_F(UnclaimedTest, the_lost_are_given_out_behind_those_that_came_after_them) {
    const LinkRef other = link_of(2);
    unclaimed_.add(offer(7, 70, link_), 10);
    unclaimed_.add(offer(7, 71, other), 11);
    unclaimed_.add_abort(abort(7, 72, 1), 12);
    unclaimed_.lost(link_, {KVF_ERR_PEER_LOST, 3, "gone"});
    EXPECT_EQ(claimed(7), (std::vector<uint64_t>{71, 72, 70}));
}

TEST(EarlyEndsTest, an_end_answers_as_many_receivers_as_were_missing) {
    EarlyEnds ends(2);
    EXPECT_FALSE(ends.answer(7, 0));
    ends.add(7, {KVF_ERR_ABORTED, 1, "cancelled"}, 2, 10);
    for (int i = 0; i < 2; ++i) {
        const auto answer = ends.answer(7, 0);
        ASSERT_TRUE(answer);
        EXPECT_EQ(answer->sentence, "cancelled");
    }
    EXPECT_FALSE(ends.answer(7, 0));
}

TEST(EarlyEndsTest, the_latest_end_of_a_room_counts_until_it_is_forgotten) {
    EarlyEnds ends(2);
    ends.add(7, {KVF_ERR_ABORTED, 1, "first"}, 1, 10);
    ends.add(7, {KVF_ERR_BOOTSTRAP, 1, "second"}, 2, 11);
    EXPECT_EQ(ends.answer(7, 0)->sentence, "second");
    ends.forget(7);
    EXPECT_FALSE(ends.answer(7, 0));
    ends.forget(7);
}

TEST(EarlyEndsTest, the_oldest_makes_room) {
    EarlyEnds ends(2);
    ends.add(1, {KVF_ERR_ABORTED, 1, ""}, 1, 10);
    ends.add(2, {KVF_ERR_ABORTED, 1, ""}, 1, 11);
    ends.add(1, {KVF_ERR_ABORTED, 1, "again"}, 1, 12);
    ends.add(3, {KVF_ERR_ABORTED, 1, ""}, 1, 13);
    EXPECT_FALSE(ends.answer(2, 0));
    EXPECT_EQ(ends.answer(1, 0)->sentence, "again");
    EXPECT_TRUE(ends.answer(3, 0));
}

TEST(EarlyEndsTest, an_end_that_is_too_old_answers_nobody) {
    EarlyEnds ends(2);
    ends.add(7, {KVF_ERR_ABORTED, 1, ""}, 2, 10);
    EXPECT_TRUE(ends.answer(7, 9));
    EXPECT_FALSE(ends.answer(7, 10));
    EXPECT_FALSE(ends.answer(7, 0));
}

} // namespace
} // namespace kvf
