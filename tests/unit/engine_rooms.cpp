// Calls for which there is no memory: whichever allocation fails, the engine is as if they had not been made.
#include "engine/engine.h"
#include "starved.h"

#include <gtest/gtest.h>

#include <thread>

namespace kvf {
namespace {

class EngineRoomsTest : public testing::Test {
  protected:
    EngineRoomsTest() {
        kvf_engine_config config{};
        config.struct_size = sizeof config;
        config.role = KVF_ROLE_BOTH;
        config.shards = 1;
        config.max_rooms = 2;
        config.inbox = 1;
        const Status created = Engine::create(config, &engine_);
        EXPECT_TRUE(created.ok()) << created.sentence();
    }

    // Makes the call with each of its allocations failing in turn until it goes through; how often it did not. busy:
    // the shard may still be taking the call before from the inbox, which has one place.
    template <typename Call>
    int make(Call call, bool busy = false) {
        int failures = 0;
        for (int allocation = 0; allocation < 100; ++allocation) {
            bool thrown = false;
            Status status;
            starved(allocation, [&] {
                try {
                    status = call();
                } catch (const std::bad_alloc &) {
                    thrown = true;
                }
            });
            if (!thrown && busy && status.code() == KVF_ERR_AGAIN) {
                std::this_thread::yield();
                --allocation;
                continue;
            }
            if (!thrown) {
                // The inbox has one place: none may be lost.
                EXPECT_TRUE(status.ok()) << "after " << failures << ": " << status.sentence();
                return failures;
            }
            ++failures;
        }
        ADD_FAILURE() << "it needs too many allocations";
        return failures;
    }

    void await_end(RoomHandle room) {
        RoomWord word;
        const Status waited = engine_->wait(room, 60'000, &word);
        EXPECT_TRUE(waited.ok()) << waited.sentence();
    }

    std::unique_ptr<Engine> engine_;
};

TEST_F(EngineRoomsTest, an_open_without_memory_takes_no_slot_no_id_and_no_place_in_the_inbox) {
    RoomHandle room;
    EXPECT_GT(make([&] { return engine_->open_sender(7, {}, &room); }), 0);
    EXPECT_EQ(engine_->rooms().open_rooms(), 1u);
    EXPECT_TRUE(engine_->abort(room, "").ok());
    await_end(room);
    EXPECT_GT(make([&] { return engine_->close(room); }), 0);
    EXPECT_EQ(engine_->rooms().open_rooms(), 0u);

    const std::string nobody = "tcp://127.0.0.1:1";
    EXPECT_GT(make([&] { return engine_->open_receiver(7, nobody, {}, &room); }), 0);
    EXPECT_EQ(engine_->rooms().open_rooms(), 1u);
    EXPECT_GT(make([&] { return engine_->close_deferred(room); }), 0);
}

TEST_F(EngineRoomsTest, a_last_chunk_and_an_accept_without_memory_can_be_tried_again) {
    RoomHandle sender;
    RoomHandle receiver;
    EXPECT_TRUE(make([&] { return engine_->open_sender(7, {}, &sender); }) > 0);
    while (engine_->open_receiver(7, "tcp://127.0.0.1:1", {}, &receiver).code() == KVF_ERR_AGAIN) {
    }
    RoomWord word;
    while (engine_->counters()[0].value != 2) // rooms_opened: the inbox is empty
        std::this_thread::yield();
    EXPECT_GT(make([&] {
                  auto chunk = std::make_unique<Chunk>();
                  chunk->last = true;
                  return engine_->send(sender, std::move(chunk));
              }),
              0);
    EXPECT_GT(make([&] { return engine_->accept(receiver, {}); }, true), 0);
    EXPECT_EQ(engine_->rooms().load(sender, &word), KVF_OK);
}

} // namespace
} // namespace kvf
