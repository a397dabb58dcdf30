// The descriptors that chunks wait for: which of them fire, which never will.
#include "engine/fences.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

namespace kvf {
namespace {

class FencesTest : public testing::Test {
  protected:
    FencesTest() { EXPECT_TRUE(Fences::create(&fences_).ok()); }

    // What a look finds, by room.
    std::map<uint64_t, int> found() const {
        std::map<uint64_t, int> out;
        fences_->look([&](RoomHandle room, const Status &fired) { out[room.value] = fired.code(); });
        return out;
    }

    std::unique_ptr<Fences> fences_;
};

struct Pipe {
    Pipe() { EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0); }
    ~Pipe() {
        close(ends[0]);
        hang_up();
    }
    void hang_up() {
        if (ends[1] >= 0)
            close(ends[1]);
        ends[1] = -1;
    }
    int ends[2];
};

TEST_F(FencesTest, a_fence_fires_once_it_is_readable_until_it_is_forgotten) {
    const OwnedFd fence(eventfd(0, EFD_CLOEXEC));
    EXPECT_TRUE(fences_->empty());
    EXPECT_TRUE(fences_->watch({7}, fence.get()).ok());
    EXPECT_FALSE(fences_->empty());
    EXPECT_TRUE(found().empty());
    eventfd_write(fence.get(), 1);
    EXPECT_EQ(found(), (std::map<uint64_t, int>{{7, KVF_OK}}));
    EXPECT_EQ(found(), (std::map<uint64_t, int>{{7, KVF_OK}}));
    fences_->forget(fence.get());
    EXPECT_TRUE(fences_->empty());
    EXPECT_TRUE(found().empty());
}

TEST_F(FencesTest, a_pipe_whose_writer_is_gone_has_fired_only_if_it_was_written_to) {
    Pipe written;
    Pipe silent;
    EXPECT_TRUE(fences_->watch({7}, written.ends[0]).ok());
    EXPECT_TRUE(fences_->watch({8}, silent.ends[0]).ok());
    EXPECT_EQ(write(written.ends[1], "x", 1), 1);
    written.hang_up();
    silent.hang_up();
    EXPECT_EQ(found(), (std::map<uint64_t, int>{{7, KVF_OK}, {8, KVF_ERR_INVALID}}));
}

TEST_F(FencesTest, what_can_not_be_waited_for_is_refused_and_not_watched) {
    const OwnedFd file(memfd_create("fence", MFD_CLOEXEC));
    const Status refused = fences_->watch({7}, file.get());
    EXPECT_EQ(refused.code(), KVF_ERR_INVALID);
    EXPECT_NE(refused.sentence().find("expected an eventfd"), std::string::npos) << refused.sentence();
    EXPECT_EQ(fences_->watch({7}, -1).code(), KVF_ERR_SYSTEM);
    EXPECT_TRUE(fences_->empty());
    fences_->forget(file.get());
    EXPECT_TRUE(fences_->empty());
}

} // namespace
} // namespace kvf
