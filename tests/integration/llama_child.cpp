// Child processes: what is said arrives, and every way of ending is told in words.
#include "child.h"

#include <gtest/gtest.h>

#include <csignal>

namespace llama {
namespace {

std::string run_shell(const char *script, int timeout_ms = 10000) {
    Child child("shell", "/bin/sh", {"-c", script});
    return child.finish(timeout_ms);
}

TEST(Child, its_end_is_told_in_words) {
    EXPECT_EQ(run_shell("exit 0"), "");
    EXPECT_EQ(run_shell("exit 3"), "exited with status 3");
    EXPECT_EQ(run_shell("kill -TERM $$"), "was ended by signal 15 (Terminated)");
    EXPECT_EQ(run_shell("while read -r line; do :; done", 1), "did not end within 1 ms and was killed");
}

TEST(Child, more_than_fits_in_a_socket_is_said_without_blocking) {
    Child child("cat", "/bin/cat", {});
    const std::string word(1 << 20, 'x');
    child.say(word);
    child.say("end");
    std::string line;
    std::vector<std::string> lines;
    while (lines.size() < 2) {
        if (child.wants_to_write())
            child.flush();
        ASSERT_TRUE(child.read_some());
        while (child.next(line))
            lines.push_back(line);
    }
    EXPECT_EQ(lines[0], word);
    EXPECT_EQ(lines[1], "end");
}

TEST(Child, a_dead_one_is_the_end_of_the_stream_and_no_signal) {
    Child child("shell", "/bin/sh", {"-c", "echo last; exit 1"});
    std::string line;
    while (child.read_some()) {
    }
    EXPECT_TRUE(child.next(line));
    EXPECT_EQ(line, "last");
    child.say("too late");
    child.flush();
    EXPECT_FALSE(child.wants_to_write());
    EXPECT_EQ(child.finish(10000), "exited with status 1");
}

TEST(Child, one_that_still_runs_ends_with_its_owner) {
    pid_t pid = -1;
    {
        const Child child("shell", "/bin/sh", {"-c", "while read -r line; do :; done"});
        pid = child.pid();
    }
    EXPECT_EQ(kill(pid, 0), -1);
}

TEST(Child, a_program_that_is_not_there_is_refused_by_name) {
    try {
        Child("absent", "/nowhere/absent", {});
        FAIL();
    } catch (const Failure &failure) {
        EXPECT_STREQ(failure.what(), "starting /nowhere/absent: No such file or directory");
    }
}

} // namespace
} // namespace llama
