#include "engine/fences.h"

#include <sys/epoll.h>

#include <cerrno>

namespace kvf {

Status Fences::create(std::unique_ptr<Fences> *out) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return fail_system(errno, "epoll for a shard");
    out->reset(new Fences(epoll));
    return {};
}

Status Fences::watch(RoomHandle room, int fence) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = room.value;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fence, &event) == 0) {
        ++watched_;
        return {};
    }
    if (errno == EPERM)
        return fail(KVF_ERR_INVALID, "a file of its kind is never waited for; expected an eventfd, a pipe or the like");
    return fail_system(errno, "watching it");
}

void Fences::forget(int fence) {
    // One that could not be watched is not there.
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fence, nullptr) == 0)
        --watched_;
}

int Fences::wait(Fired *fired) const {
    epoll_event events[kMostAtOnce];
    const int count = epoll_wait(epoll_.get(), events, kMostAtOnce, 0);
    for (int i = 0; i < count; ++i)
        fired[i] = {{events[i].data.u64}, (events[i].events & EPOLLIN) == 0};
    return count;
}

Status Fences::broken() {
    return fail(KVF_ERR_INVALID, "whoever was to fire it has closed its end");
}

} // namespace kvf
