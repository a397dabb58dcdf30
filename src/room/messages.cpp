#include "room/messages.h"

#include <unistd.h>

namespace kvf {

OwnedFd::~OwnedFd() {
    if (fd_ >= 0)
        close(fd_);
}

void Tally::add(Status status) {
    std::unique_lock lock(mutex_);
    if (!status.ok() && first_.ok())
        first_ = std::move(status);
    if (--left_ != 0)
        return;
    Status result = std::move(first_);
    lock.unlock();
    done_(std::move(result));
}

} // namespace kvf
