// The last references of links, dropped anywhere.
#include "control/releases.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvf {
namespace {

// Runs what it is given later, as a control thread does; without memory as long as a test says so.
class Port : public ControlPort {
  public:
    void dial(uint64_t, const std::string &) override {}
    void send(uint64_t, std::span<const uint8_t>) override {}
    void close(uint64_t) override {}
    void to_shard(uint32_t, ToShard &&) override {}
    void ask_topology(uint64_t, const std::string &) override {}
    void ask_rank(uint64_t, const std::string &, const RankPlace &) override {}
    void ask_dp_rank(uint64_t, const std::string &, uint64_t) override {}
    void register_rank(uint64_t, const std::string &, const RankRecord &) override {}
    void run_on_control(std::function<void()> fn) override {
        if (full)
            throw std::bad_alloc();
        later.push_back(std::move(fn));
    }

    void run() {
        for (const auto &fn : std::exchange(later, {}))
            fn();
    }

    bool full = false;
    std::vector<std::function<void()>> later;
};

class ReleasesTest : public testing::Test {
  protected:
    void release(uint64_t link) {
        Releases::Ticket ticket{{link, nullptr}};
        releases_->release(ticket);
        EXPECT_TRUE(ticket.empty());
    }

    using Links = std::vector<uint64_t>;

    Port port_;
    Links released_;
    std::shared_ptr<Releases> releases_ =
        std::make_shared<Releases>(port_, [this](uint64_t link) { released_.push_back(link); });
};

TEST_F(ReleasesTest, a_link_is_released_on_the_control_thread) {
    release(1);
    EXPECT_TRUE(released_.empty());
    port_.run();
    EXPECT_EQ(released_, Links{1});
}

TEST_F(ReleasesTest, without_memory_nothing_is_thrown_and_the_next_one_takes_it_along) {
    port_.full = true;
    release(1);
    port_.full = false;
    release(2);
    port_.run();
    EXPECT_EQ(released_, (Links{1, 2}));
}

TEST_F(ReleasesTest, once_closed_nobody_is_told) {
    release(1);
    releases_->close([] {});
    release(2);
    port_.run();
    EXPECT_TRUE(released_.empty());
    EXPECT_TRUE(port_.later.empty());
}

} // namespace
} // namespace kvf
