// epoll over the inner descriptor, a timer and an eventfd: an epoll descriptor can itself be waited for.
#include "wake.h"

#include "host.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

namespace fault {
namespace {

constexpr uint64_t kSecond = 1000000000;

bool watch(int epoll, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

} // namespace

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
}

Wake::~Wake() {
    for (const int fd : {epoll_, timer_, event_})
        if (fd >= 0)
            close(fd);
}

int Wake::open(int inner_fd) {
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (timer_ < 0 || event_ < 0 || epoll_ < 0 || !watch(epoll_, inner_fd) || !watch(epoll_, timer_) ||
        !watch(epoll_, event_))
        return fail(KVF_ERR_SYSTEM, "a lane's descriptor: %s", strerror(errno));
    return KVF_OK;
}

void Wake::at(uint64_t due_ns) {
    if (timer_ < 0)
        return;
    itimerspec when{};
    if (due_ns != UINT64_MAX) {
        when.it_value.tv_sec = static_cast<time_t>(due_ns / kSecond);
        when.it_value.tv_nsec = static_cast<long>(due_ns % kSecond);
    }
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void Wake::notify() {
    if (event_ >= 0)
        eventfd_write(event_, 1);
}

void Wake::drain() {
    if (event_ < 0)
        return;
    uint64_t count = 0;
    // Empty ones refuse, which is as good.
    if (read(timer_, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
    eventfd_read(event_, &count);
}

} // namespace fault
