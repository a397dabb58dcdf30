// Signals while a thread is begun.
#include "base/signals.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kvf {
namespace {

bool blocked(int number) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, number) == 1;
}

TEST(BlockedSignalsTest, signals_are_blocked_until_the_end_of_the_scope) {
    ASSERT_FALSE(blocked(SIGUSR1));
    {
        const BlockedSignals all;
        EXPECT_TRUE(blocked(SIGUSR1));
        EXPECT_TRUE(blocked(SIGTERM));
    }
    EXPECT_FALSE(blocked(SIGUSR1));
    EXPECT_FALSE(blocked(SIGTERM));
}

// As by a thread for which the system has no place.
TEST(BlockedSignalsTest, the_callers_mask_comes_back_when_something_is_thrown) {
    try {
        const BlockedSignals all;
        throw std::runtime_error("no thread");
    } catch (const std::runtime_error &) {
        EXPECT_FALSE(blocked(SIGUSR1));
    }
}

} // namespace
} // namespace kvf
