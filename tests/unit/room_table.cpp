// The table of rooms: handles and their generations, what is claimed once, waiting, reports.
#include "room/room_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace kvf {
namespace {

constexpr uint8_t kTag = 5;
constexpr uint64_t kLong = 60'000'000'000;

class RoomTableTest : public testing::Test {
  protected:
    RoomHandle opened(uint64_t room_id, RoomRole role = RoomRole::kSender, const std::string &place = {}) {
        RoomHandle room;
        const Status status = table_.open(role, room_id, place, &room);
        EXPECT_TRUE(status.ok()) << status.sentence();
        return room;
    }

    int code_of_open(uint64_t room_id, RoomRole role = RoomRole::kSender, const std::string &place = {}) {
        RoomHandle room;
        return table_.open(role, room_id, place, &room).code();
    }

    int load(RoomHandle room) const {
        RoomWord word;
        return table_.load(room, &word);
    }

    RoomWord word(RoomHandle room) const {
        RoomWord word;
        EXPECT_EQ(table_.load(room, &word), KVF_OK);
        return word;
    }

    void end(RoomHandle room) { table_.publish(room, KVF_STATE_SUCCESS, KVF_ROOM_QUIESCED, KVF_OK); }

    void close(RoomHandle room) {
        end(room);
        EXPECT_EQ(table_.retire(room), KVF_OK);
        table_.release(room);
    }

    RoomTable table_{4, kTag, 3};
};

TEST_F(RoomTableTest, a_new_room_is_bootstrapping) {
    const RoomHandle room = opened(7);
    EXPECT_EQ(word(room).state(), KVF_STATE_BOOTSTRAPPING);
    EXPECT_EQ(word(room).flags(), 0);
    EXPECT_EQ(word(room).code(), KVF_OK);
    EXPECT_EQ(table_.room_id(room), 7u);
    EXPECT_EQ(table_.role(room), RoomRole::kSender);
    EXPECT_EQ(table_.role(opened(7, RoomRole::kReceiver, "a")), RoomRole::kReceiver);
    EXPECT_EQ(table_.open_rooms(), 2u);
}

TEST_F(RoomTableTest, zero_is_never_a_room) {
    EXPECT_EQ(load({0}), KVF_ERR_FOREIGN);
}

TEST_F(RoomTableTest, a_handle_that_this_table_can_not_have_given_is_foreign) {
    const RoomHandle room = opened(7);
    const RoomHandle of_another_engine = RoomHandle::make(room.generation(), kTag + 1, room.slot());
    EXPECT_EQ(load(of_another_engine), KVF_ERR_FOREIGN);
    EXPECT_EQ(load(RoomHandle::make(1, kTag, table_.capacity())), KVF_ERR_FOREIGN);
    EXPECT_EQ(table_.retire(of_another_engine), KVF_ERR_FOREIGN);
    const Status status = table_.refuse(of_another_engine, KVF_ERR_FOREIGN);
    EXPECT_EQ(status.code(), KVF_ERR_FOREIGN);
    EXPECT_EQ(status.sentence(), text("room handle 0x%llx was not given by this engine",
                                      static_cast<unsigned long long>(of_another_engine.value)));
}

TEST_F(RoomTableTest, a_slot_that_was_never_open_is_stale) {
    EXPECT_EQ(load(RoomHandle::make(1, kTag, 3)), KVF_ERR_STALE);
}

TEST_F(RoomTableTest, a_stale_handle_is_never_its_successor) {
    const RoomHandle first = opened(7);
    close(first);
    EXPECT_EQ(load(first), KVF_ERR_STALE);
    const RoomHandle second = opened(8);
    EXPECT_EQ(second.slot(), first.slot());
    EXPECT_NE(second.generation(), first.generation());
    EXPECT_EQ(load(first), KVF_ERR_STALE);
    EXPECT_EQ(table_.retire(first), KVF_ERR_STALE);
    kvf_report report;
    EXPECT_EQ(table_.report(first, &report), KVF_ERR_STALE);
    EXPECT_EQ(load(second), KVF_OK);
    EXPECT_NE(table_.refuse(first, KVF_ERR_STALE).sentence().find(text("generation %u", second.generation())),
              std::string::npos);
}

TEST_F(RoomTableTest, every_status_survives_in_the_word) {
    const RoomHandle room = opened(7);
#define KVF_CHECK(name, value, text)                                       \
    table_.publish(room, KVF_STATE_FAILED, KVF_ROOM_QUIESCED, KVF_##name); \
    EXPECT_EQ(word(room).code(), KVF_##name);                              \
    EXPECT_EQ(word(room).state(), KVF_STATE_FAILED);                       \
    EXPECT_TRUE(word(room).quiesced());
    KVF_STATUS_MAP(KVF_CHECK)
#undef KVF_CHECK
}

TEST_F(RoomTableTest, a_live_id_is_not_opened_twice_in_one_role_and_place) {
    opened(7);
    opened(7, RoomRole::kReceiver, "a:1");
    opened(7, RoomRole::kReceiver, "b:1");
    EXPECT_EQ(code_of_open(7), KVF_ERR_EXISTS);
    EXPECT_EQ(code_of_open(7, RoomRole::kReceiver, "b:1"), KVF_ERR_EXISTS);
    RoomHandle room;
    EXPECT_EQ(table_.open(RoomRole::kReceiver, 7, "b:1", &room).sentence(),
              "room 7 is open already as a receiver at b:1");
    EXPECT_EQ(table_.open_rooms(), 3u);
}

TEST_F(RoomTableTest, a_full_table_says_so_and_takes_nothing) {
    for (uint64_t id = 0; id < 4; ++id)
        opened(id);
    RoomHandle room;
    const Status full = table_.open(RoomRole::kSender, 9, {}, &room);
    EXPECT_EQ(full.code(), KVF_ERR_FULL);
    EXPECT_EQ(full.sentence(), "all 4 room slots are in use; KVF_MAX_ROOMS sets how many there are");
    EXPECT_EQ(table_.open_rooms(), 4u);
}

TEST_F(RoomTableTest, a_slot_is_free_once_its_shard_released_it) {
    std::vector<RoomHandle> rooms;
    for (uint64_t id = 0; id < 4; ++id)
        rooms.push_back(opened(id));
    end(rooms[2]);
    EXPECT_EQ(table_.retire(rooms[2]), KVF_OK);
    EXPECT_EQ(code_of_open(9), KVF_ERR_AGAIN);
    table_.release(rooms[2]);
    EXPECT_EQ(opened(9).slot(), rooms[2].slot());
}

TEST_F(RoomTableTest, an_id_is_free_as_soon_as_its_handle_is_retired) {
    const RoomHandle first = opened(7);
    end(first);
    EXPECT_EQ(code_of_open(7), KVF_ERR_EXISTS);
    EXPECT_EQ(table_.retire(first), KVF_OK);
    const RoomHandle second = opened(7);
    EXPECT_NE(second, first);
    EXPECT_EQ(code_of_open(7), KVF_ERR_EXISTS);
}

TEST_F(RoomTableTest, a_room_is_retired_at_its_quiesced_end_and_once) {
    const RoomHandle room = opened(7);
    EXPECT_EQ(table_.retire(room), KVF_ERR_BUSY);
    table_.publish(room, KVF_STATE_TRANSFERRING, 0, KVF_OK);
    EXPECT_EQ(table_.retire(room), KVF_ERR_BUSY);
    table_.publish(room, KVF_STATE_FAILED, 0, KVF_ERR_ABORTED);
    EXPECT_EQ(table_.retire(room), KVF_ERR_BUSY);
    EXPECT_EQ(load(room), KVF_OK);
    table_.publish(room, KVF_STATE_FAILED, KVF_ROOM_QUIESCED, KVF_ERR_ABORTED);
    EXPECT_EQ(table_.retire(room), KVF_OK);
    EXPECT_EQ(table_.retire(room), KVF_ERR_STALE);
    EXPECT_EQ(table_.open_rooms(), 0u);
}

TEST_F(RoomTableTest, each_thing_is_claimed_once_a_room) {
    const RoomHandle first = opened(7);
    EXPECT_FALSE(table_.claimed(first, RoomTable::kLastSent));
    EXPECT_TRUE(table_.claim(first, RoomTable::kLastSent));
    EXPECT_FALSE(table_.claim(first, RoomTable::kLastSent));
    EXPECT_TRUE(table_.claimed(first, RoomTable::kLastSent));
    EXPECT_FALSE(table_.claimed(first, RoomTable::kAccepted));
    EXPECT_TRUE(table_.claim(first, RoomTable::kAccepted));
    EXPECT_TRUE(table_.claim(first, RoomTable::kDeferred));
    close(first);
    const RoomHandle second = opened(7);
    ASSERT_EQ(second.slot(), first.slot());
    EXPECT_FALSE(table_.claim(first, RoomTable::kAccepted));
    EXPECT_FALSE(table_.claimed(second, RoomTable::kAccepted));
    EXPECT_TRUE(table_.claim(second, RoomTable::kAccepted));
}

TEST_F(RoomTableTest, of_many_that_claim_one_does) {
    const RoomHandle room = opened(7);
    std::atomic<int> winners{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] { winners += table_.claim(room, RoomTable::kLastSent) ? 1 : 0; });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(winners.load(), 1);
}

TEST_F(RoomTableTest, a_slot_is_looked_up_while_it_has_a_room) {
    const RoomHandle room = opened(7);
    RoomHandle seen;
    RoomWord seen_word;
    uint64_t room_id = 0;
    EXPECT_TRUE(table_.at(room.slot(), &seen, &seen_word, &room_id));
    EXPECT_EQ(seen, room);
    EXPECT_EQ(room_id, 7u);
    EXPECT_EQ(seen_word.state(), KVF_STATE_BOOTSTRAPPING);
    close(room);
    EXPECT_FALSE(table_.at(room.slot(), &seen, &seen_word, &room_id));
}

// ------------------------------------------------------------------------------------------------------------ waiting

TEST_F(RoomTableTest, a_wait_for_nothing_ends_with_its_time) {
    const RoomHandle room = opened(7);
    table_.wait(room, word(room), 1'000'000);
    EXPECT_EQ(word(room).state(), KVF_STATE_BOOTSTRAPPING);
}

TEST_F(RoomTableTest, a_word_that_has_changed_is_not_waited_for) {
    const RoomHandle room = opened(7);
    const RoomWord before = word(room);
    end(room);
    table_.wait(room, before, kLong);
}

TEST_F(RoomTableTest, every_waiter_is_woken_by_each_change) {
    const RoomHandle room = opened(7);
    std::atomic<int> at_end{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; ++i)
        waiters.emplace_back([&] {
            RoomWord seen = word(room);
            while (!seen.ended()) {
                table_.wait(room, seen, kLong);
                seen = word(room);
            }
            ++at_end;
        });
    for (const uint8_t state : {KVF_STATE_WAITING, KVF_STATE_TRANSFERRING, KVF_STATE_SUCCESS}) {
        table_.publish(room, state, state == KVF_STATE_SUCCESS ? KVF_ROOM_QUIESCED : 0, KVF_OK);
        table_.wake(room.slot());
    }
    for (std::thread &waiter : waiters)
        waiter.join();
    EXPECT_EQ(at_end.load(), 4);
}

TEST_F(RoomTableTest, who_waits_for_quiescence_is_woken_when_another_retires_the_room) {
    const RoomHandle room = opened(7);
    end(room);
    std::thread waiter([&] {
        RoomWord seen;
        while (table_.load(room, &seen) == KVF_OK)
            table_.wait(room, seen, kLong);
    });
    EXPECT_EQ(table_.retire(room), KVF_OK);
    waiter.join();
}

// ------------------------------------------------------------------------------------------------------------ reports

TEST_F(RoomTableTest, a_report_carries_the_word_of_now) {
    const RoomHandle room = opened(7);
    kvf_report report;
    ASSERT_EQ(table_.report(room, &report), KVF_OK);
    EXPECT_EQ(report.room_id, 7u);
    EXPECT_EQ(report.state, uint32_t{KVF_STATE_BOOTSTRAPPING});
    EXPECT_EQ(report.rank, -1);
    EXPECT_EQ(report.opened_ns, 0u);

    kvf_report filed{};
    filed.bytes = 99;
    filed.rank = 3;
    table_.file(room, filed);
    table_.publish(room, KVF_STATE_FAILED, KVF_ROOM_QUIESCED, KVF_ERR_LAYOUT);
    ASSERT_EQ(table_.report(room, &report), KVF_OK);
    EXPECT_EQ(report.bytes, 99u);
    EXPECT_EQ(report.rank, 3);
    EXPECT_EQ(report.state, uint32_t{KVF_STATE_FAILED});
    EXPECT_EQ(report.flags, uint32_t{KVF_ROOM_QUIESCED});
    EXPECT_EQ(report.code, KVF_ERR_LAYOUT);
}

TEST_F(RoomTableTest, a_report_is_not_inherited) {
    const RoomHandle first = opened(7);
    kvf_report filed{};
    filed.bytes = 99;
    table_.file(first, filed);
    close(first);
    const RoomHandle second = opened(8);
    ASSERT_EQ(second.slot(), first.slot());
    kvf_report report;
    ASSERT_EQ(table_.report(second, &report), KVF_OK);
    EXPECT_EQ(report.bytes, 0u);
    EXPECT_EQ(report.room_id, 8u);
}

// The kernel compares half of the word, so that a waiter may not see that another room has come into the slot.
TEST_F(RoomTableTest, a_wait_for_a_word_that_does_not_change_comes_back_to_look) {
    const RoomHandle room = opened(7);
    RoomWord word;
    ASSERT_EQ(table_.load(room, &word), KVF_OK);
    table_.wait(room, word, UINT64_MAX);
}

TEST_F(RoomTableTest, rooms_are_unquiesced_until_nothing_touches_their_pages_and_slots_without_rooms_are_not) {
    const RoomHandle first = opened(7);
    const RoomHandle second = opened(8);
    EXPECT_EQ(table_.unquiesced(), 2u);
    table_.publish(first, KVF_STATE_FAILED, 0, KVF_ERR_ABORTED);
    EXPECT_EQ(table_.unquiesced(), 2u);
    table_.publish(first, KVF_STATE_FAILED, KVF_ROOM_QUIESCED, KVF_ERR_ABORTED);
    table_.publish(second, KVF_STATE_SUCCESS, KVF_ROOM_QUIESCED, KVF_OK);
    EXPECT_EQ(table_.unquiesced(), 0u);
    EXPECT_EQ(table_.retire(first), KVF_OK);
    EXPECT_EQ(table_.unquiesced(), 0u);
}

// -------------------------------------------------------------------------------------------------------- many threads

// Each room's id is its generation: those of a slot come one after the other.
TEST(RoomTableThreads, an_event_carries_the_id_of_its_room_and_not_of_the_next_in_its_slot) {
    RoomTable table(1, kTag, 1);
    std::atomic<bool> done{false};
    std::thread reader([&] {
        RoomHandle room;
        RoomWord word;
        uint64_t room_id = 0;
        while (!done)
            if (table.at(0, &room, &word, &room_id)) {
                ASSERT_EQ(room_id, room.generation());
                ASSERT_EQ(word.generation(), room.generation());
            }
    });
    for (uint64_t generation = 1; generation <= 300'000; ++generation) {
        RoomHandle room;
        ASSERT_TRUE(table.open(RoomRole::kSender, generation, {}, &room).ok());
        table.publish(room, KVF_STATE_FAILED, KVF_ROOM_QUIESCED, KVF_ERR_ABORTED);
        ASSERT_EQ(table.retire(room), KVF_OK);
        table.release(room);
    }
    done = true;
    reader.join();
}

// Each thread is caller and shard of its rooms.
TEST(RoomTableThreadsTest, no_two_live_rooms_share_a_handle) {
    constexpr uint32_t kThreads = 4;
    RoomTable table(64, kTag, 2);
    std::vector<std::set<uint64_t>> given(kThreads);
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < kThreads; ++thread)
        threads.emplace_back([&, thread] {
            for (uint64_t i = 0; i < 5000; ++i) {
                RoomHandle room;
                if (!table.open(RoomRole::kSender, uint64_t{thread} << 32 | i % 8, {}, &room).ok())
                    continue;
                EXPECT_TRUE(given[thread].insert(room.value).second);
                table.file(room, kvf_report{});
                table.publish(room, KVF_STATE_SUCCESS, KVF_ROOM_QUIESCED, KVF_OK);
                EXPECT_EQ(table.retire(room), KVF_OK);
                table.release(room);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    std::set<uint64_t> all;
    size_t sum = 0;
    for (const auto &mine : given) {
        all.insert(mine.begin(), mine.end());
        sum += mine.size();
    }
    EXPECT_EQ(all.size(), sum);
    EXPECT_EQ(sum, kThreads * 5000u);
    EXPECT_EQ(table.open_rooms(), 0u);
}

// A shard that frees a room by itself makes its handle stale; whoever sees that may open the id again.
TEST(RoomTableThreadsTest, an_id_is_free_for_whoever_sees_its_handle_stale) {
    RoomTable table(64, kTag, 1);
    for (int i = 0; i < 300; ++i) {
        RoomHandle room;
        ASSERT_TRUE(table.open(RoomRole::kSender, 7, {}, &room).ok());
        table.publish(room, KVF_STATE_SUCCESS, KVF_ROOM_QUIESCED, KVF_OK);
        std::thread shard([&] {
            EXPECT_EQ(table.retire(room), KVF_OK);
            table.release(room);
        });
        RoomWord word;
        while (table.load(room, &word) == KVF_OK)
            std::this_thread::yield();
        RoomHandle next;
        const Status opened = table.open(RoomRole::kSender, 7, {}, &next);
        shard.join();
        ASSERT_TRUE(opened.ok()) << opened.sentence();
        table.publish(next, KVF_STATE_SUCCESS, KVF_ROOM_QUIESCED, KVF_OK);
        ASSERT_EQ(table.retire(next), KVF_OK);
        table.release(next);
    }
}

TEST(RoomTableThreadsTest, one_of_many_that_close_a_room_does) {
    RoomTable table(4, kTag, 1);
    RoomHandle room;
    ASSERT_TRUE(table.open(RoomRole::kSender, 7, {}, &room).ok());
    table.publish(room, KVF_STATE_SUCCESS, KVF_ROOM_QUIESCED, KVF_OK);
    std::atomic<int> winners{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] { winners += table.retire(room) == KVF_OK ? 1 : 0; });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(winners.load(), 1);
    EXPECT_EQ(table.open_rooms(), 0u);
}

TEST(ShardOfTest, ids_that_share_a_residue_still_spread) {
    for (const uint64_t step : {uint64_t{1}, uint64_t{4}, uint64_t{1} << 32}) {
        std::vector<int> rooms(4);
        for (uint64_t i = 0; i < 4000; ++i)
            ++rooms[shard_of(i * step, 4)];
        for (const int count : rooms)
            EXPECT_NEAR(count, 1000, 200) << "step " << step;
    }
}

} // namespace
} // namespace kvf
