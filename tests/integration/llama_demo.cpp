// The demonstration as a whole, over the real library: its exit status.
#include "demo.h"

#include <gtest/gtest.h>

namespace llama {
namespace {

TEST(Demo, every_token_and_answer_is_right) {
    EXPECT_EQ(run_demo({.rooms = 8}), 0);
}

TEST(Demo, chunks_may_be_a_page_or_longer_than_any_prompt) {
    EXPECT_EQ(run_demo({.rooms = 3, .seed = 2, .chunk_tokens = 16}), 0);
    EXPECT_EQ(run_demo({.rooms = 3, .seed = 2, .chunk_tokens = 1024}), 0);
}

TEST(Demo, rooms_that_find_no_pages_free_wait_for_them) {
    EXPECT_EQ(run_demo({.rooms = 12, .seed = 3, .pool_bytes = 1 << 20}), 0);
}

TEST(Demo, a_prompt_is_gone_on_with_alone_on_standard_output) {
    const std::string prompt =
        "Mara put the drum in the attic. Felix put the lamp in the museum.\nQ: Where is the lamp?\nA:";
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_demo({.prompt = prompt, .tokens = 16}), 0);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), prompt + " In the museum.\n");
}

TEST(Demo, a_wrong_answer_is_a_failure) {
    EXPECT_EQ(run_demo({.tokens = 2, .rooms = 1}), 1); // too few to answer with
}

TEST(Demo, what_cannot_be_is_refused_before_anything_starts) {
    EXPECT_EQ(run_demo({.model = "model.bin"}), 1);
    EXPECT_EQ(run_demo({.rooms = 0}), 1);
    EXPECT_EQ(run_demo({.chunk_tokens = 20}), 1);
    EXPECT_EQ(run_demo({.prompt = std::string(600, 'x')}), 1);
}

TEST(Demo, a_transport_that_does_not_load_or_does_not_work_is_a_failure) {
    EXPECT_EQ(run_demo({.rooms = 2, .transport = "absent"}), 1);
    EXPECT_EQ(run_demo({.rooms = 2, .transport = "fault+shm", .transport_options = "fail=1"}), 1);
}

} // namespace
} // namespace llama
