// The log: levels, the sink's promises, and the line that reaches standard error.
#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace kvf {
namespace {

struct Lines {
    std::vector<std::pair<int32_t, std::string>> all;

    static void take(void *user, int32_t level, const char *message) {
        static_cast<Lines *>(user)->all.emplace_back(level, message);
    }
};

class Log : public testing::Test {
  protected:
    void TearDown() override { log_set(nullptr, nullptr, 0); }
    Lines lines_;
};

TEST_F(Log, the_default_level_is_warn) {
    log_set(nullptr, nullptr, 0);
    EXPECT_TRUE(log_enabled(KVF_LOG_WARN));
    EXPECT_FALSE(log_enabled(KVF_LOG_INFO));
}

TEST_F(Log, level_zero_is_the_one_of_the_environment) {
    setenv("KVF_LOG", "debug", 1);
    log_set(Lines::take, &lines_, 0);
    EXPECT_TRUE(log_enabled(KVF_LOG_DEBUG));
    setenv("KVF_LOG", "no such level", 1);
    log_set(nullptr, nullptr, 0);
    EXPECT_FALSE(log_enabled(KVF_LOG_INFO));
    unsetenv("KVF_LOG");
}

TEST_F(Log, lines_above_the_level_are_dropped) {
    log_set(Lines::take, &lines_, KVF_LOG_INFO);
    log(KVF_LOG_INFO, "page %d", 7);
    log(KVF_LOG_DEBUG, "page %d", 8);
    ASSERT_EQ(lines_.all.size(), 1U);
    EXPECT_EQ(lines_.all[0], std::make_pair(int32_t{KVF_LOG_INFO}, std::string("page 7")));
}

TEST_F(Log, text_of_a_peer_cannot_forge_a_line) {
    log_set(Lines::take, &lines_, KVF_LOG_WARN);
    log(KVF_LOG_WARN, "peer %s", "a\nkvferry: error: b\x1b[2J");
    ASSERT_EQ(lines_.all.size(), 1U);
    EXPECT_EQ(lines_.all[0].second, "peer a kvferry: error: b [2J");
}

TEST_F(Log, a_long_line_is_cut_between_characters) {
    log_set(Lines::take, &lines_, KVF_LOG_WARN);
    std::string text(1999, 'x');
    for (int i = 0; i < 100; ++i)
        text += "\u00e9"; // two bytes
    log(KVF_LOG_WARN, "%s", text.c_str());
    ASSERT_EQ(lines_.all.size(), 1U);
    EXPECT_EQ(lines_.all[0].second, std::string(1999, 'x'));
}

TEST_F(Log, errno_survives) {
    log_set(Lines::take, &lines_, KVF_LOG_WARN);
    errno = EBADF;
    log(KVF_LOG_WARN, "x");
    EXPECT_EQ(errno, EBADF);
}

TEST_F(Log, standard_error_gets_the_level_and_one_line) {
    log_set(nullptr, nullptr, KVF_LOG_INFO);
    testing::internal::CaptureStderr();
    log(KVF_LOG_WARN, "room %d", 7);
    log(KVF_LOG_ERROR, "gone");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "kvferry: warn: room 7\nkvferry: error: gone\n");
}

// Each sink belongs to one log_set; when the next has returned it is marked dead, and must never be seen running.
TEST_F(Log, a_replaced_sink_is_not_running_any_more) {
    struct Sink {
        std::atomic<bool> dead{false};
        std::atomic<int> after_death{0};
        static void take(void *user, int32_t, const char *) {
            auto *sink = static_cast<Sink *>(user);
            std::this_thread::yield();
            if (sink->dead)
                ++sink->after_death;
        }
    };
    std::vector<Sink> sinks(200);
    log_set(Sink::take, &sinks[0], KVF_LOG_WARN);
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (int i = 0; i < 3; ++i)
        writers.emplace_back([&] {
            while (!stop)
                log(KVF_LOG_WARN, "line");
        });
    for (size_t i = 1; i < sinks.size(); ++i) {
        log_set(Sink::take, &sinks[i], KVF_LOG_WARN);
        sinks[i - 1].dead = true;
    }
    stop = true;
    for (std::thread &writer : writers)
        writer.join();
    for (const Sink &sink : sinks)
        EXPECT_EQ(sink.after_death, 0);
}

// The fork comes while another thread is inside the sink and holds the log's mutex.
TEST_F(Log, a_forked_child_can_log_whatever_other_threads_were_doing) {
    struct Gate {
        std::atomic<bool> inside{false}, open{false};
    } gate;
    log_set(
        [](void *user, int32_t, const char *) {
            auto *it = static_cast<Gate *>(user);
            it->inside = true;
            while (!it->open)
                std::this_thread::yield();
        },
        &gate, KVF_LOG_WARN);
    std::thread writer([] { log(KVF_LOG_WARN, "held"); });
    while (!gate.inside)
        std::this_thread::yield();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(20); // a deadlock ends the child by a signal
        log(KVF_LOG_WARN, "from the child");
        _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    gate.open = true;
    writer.join();
}

} // namespace
} // namespace kvf
