// The fences of chunks that a shard's rooms wait for: descriptors in an epoll, each with its room.
#pragma once

#include "base/status.h"
#include "room/messages.h"

#include <memory>

namespace kvf {

class Fences {
  public:
    static Status create(std::unique_ptr<Fences> *out);

    // KVF_ERR_INVALID: the descriptor is of a kind that can't be waited for. KVF_ERR_SYSTEM.
    Status watch(RoomHandle room, int fence);
    // Before the fence is closed. It is a duplicate of the caller's descriptor, so that closing it would leave it in
    // the epoll.
    void forget(int fence);
    bool empty() const { return watched_ == 0; }

    // Visits the rooms of fences that have fired, with KVF_OK, and of those that never will, with the reason. Again and
    // again until they are forgotten.
    template <typename Visit>
    void look(Visit visit) const {
        Fired fired[kMostAtOnce];
        const int count = wait(fired);
        for (int i = 0; i < count; ++i)
            visit(fired[i].room, fired[i].broken ? broken() : Status());
    }

    // Readable when look() would find something.
    int descriptor() const { return epoll_.get(); }

  private:
    static constexpr int kMostAtOnce = 64;
    struct Fired {
        RoomHandle room;
        bool broken = false;
    };

    explicit Fences(int epoll) : epoll_(epoll) {}
    int wait(Fired *fired) const;
    static Status broken();

    const OwnedFd epoll_;
    uint32_t watched_ = 0;
};

} // namespace kvf
