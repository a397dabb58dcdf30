// Threads of the library leave signals to the application's.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace kvf {

// Blocks every signal while it lives, so that a thread begun meanwhile takes none; then the caller's mask is as it was.
class BlockedSignals {
  public:
    BlockedSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    BlockedSignals(const BlockedSignals &) = delete;
    BlockedSignals &operator=(const BlockedSignals &) = delete;

  private:
    sigset_t before_;
};

} // namespace kvf
