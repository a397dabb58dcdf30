// The router against processes that do not do their part: it ends, and says which one and why.
#include "router.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace llama {
namespace {

namespace fs = std::filesystem;

class Processes : public testing::Test {
  protected:
    void SetUp() override { fs::create_directories(folder_); }
    void TearDown() override { fs::remove_all(folder_); }

    // What the router fails with when the two programs are these shell scripts.
    std::string failure(const char *prefill, const char *decode, int silence_ms = 60000) {
        RouterOptions options;
        options.prefill_program = script("prefill", prefill);
        options.decode_program = script("decode", decode);
        options.model = "model";
        options.transport = "shm";
        options.silence_ms = silence_ms;
        options.progress = [](const std::string &) {};
        try {
            Router router(options);
            outcomes_ = router.run({{{kBegin}, {2, kNoStop}}});
            router.close();
            return {};
        } catch (const Failure &failure) {
            return failure.what();
        }
    }

    std::vector<Outcome> outcomes_;

  private:
    std::string script(const char *name, const char *body) const {
        const std::string path = (folder_ / name).string();
        std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
        chmod(path.c_str(), 0700);
        return path;
    }

    const fs::path folder_ = fs::path(testing::TempDir()) /
                             (std::string("llama_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

constexpr char kWaits[] = "echo ready; while read -r line; do [ \"$line\" != end ] || exit 0; done";
constexpr char kPrefills[] =
    "echo ready; read -r room; echo chunk 1 1; echo report 1 4 0 9 1 1 1 1 1 1 1 1 shm; "
    "read -r end";
constexpr char kDecodes[] =
    "echo ready; read -r room; echo report 1 4 0 9 1 1 1 1 1 1 1 1 shm; echo token 1 7; "
    "echo token 1 2; echo done 1; read -r end";

TEST_F(Processes, that_do_their_part_give_the_tokens) {
    EXPECT_EQ(failure(kPrefills, kDecodes), "");
    ASSERT_EQ(outcomes_.size(), 1U);
    EXPECT_EQ(outcomes_[0].tokens, (std::vector<Token>{7, 2}));
    EXPECT_EQ(outcomes_[0].chunks, 1U);
    EXPECT_EQ(outcomes_[0].failure(), "");
}

TEST_F(Processes, whose_room_failed_give_both_reasons) {
    EXPECT_EQ(failure("echo ready; read -r room; echo report 1 0 -62 0 0 1 1 0 0 1 0 0 shm cable cut; read -r end",
                      "echo ready; read -r room; echo report 1 0 -45 0 0 1 1 0 0 1 0 0 - cable cut; read -r end"),
              "");
    ASSERT_EQ(outcomes_.size(), 1U);
    EXPECT_EQ(outcomes_[0].failure(), "prefill: KVF_ERR_TRANSPORT: cable cut; decode: KVF_ERR_PEER_ABORTED: cable cut");
}

TEST_F(Processes, that_die_are_named_with_how_they_ended) {
    EXPECT_EQ(failure("exit 3", kWaits), "the prefill process exited with status 3 before its work was done");
    EXPECT_EQ(failure(kWaits, "echo ready; kill -KILL $$"),
              "the decode process was ended by signal 9 (Killed) before its work was done");
    EXPECT_EQ(failure(kPrefills, "echo ready; exit 0"), "the decode process exited before its work was done");
}

TEST_F(Processes, that_fall_silent_are_given_up) {
    EXPECT_EQ(failure(kWaits, "while read -r line; do :; done", 300),
              "neither process said anything for 300 ms; giving up");
    EXPECT_EQ(failure(kPrefills, kWaits, 300), "neither process said anything for 300 ms; giving up");
}

TEST_F(Processes, that_talk_nonsense_are_refused_with_the_line) {
    EXPECT_EQ(failure(kWaits, "echo hello there; read -r end"),
              "the decode process said \"hello there\", which is no line of the protocol");
    EXPECT_EQ(failure(kWaits, "echo ready; read -r room; echo token 1; read -r end"),
              "a word is missing at the end of the line \"token 1\"");
    EXPECT_EQ(failure(kPrefills, "echo ready; read -r room; echo token 2 5; read -r end"),
              "a process spoke of room 2, expected 1 to 1");
}

TEST_F(Processes, that_exit_badly_at_the_end_are_told) {
    const std::string failing = std::string(kDecodes) + "; exit 4";
    EXPECT_EQ(failure(kPrefills, failing.c_str()), "the decode process exited with status 4");
}

} // namespace
} // namespace llama
