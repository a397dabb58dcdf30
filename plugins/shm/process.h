// Which process is which: what names one on this host for good, and a hold on a living one. A pid alone names nothing,
// it may belong to another process by now.
#pragma once

#include "fd.h"
#include "status.h"

#include <sys/types.h>

#include <array>
#include <cstdint>

namespace shm {

using BootId = std::array<uint8_t, 16>;

// A pid means something only together with all of these.
struct ProcessId {
    BootId boot_id{};           // of the running kernel: the host
    uint64_t pid_namespace = 0; // inode of /proc/<pid>/ns/pid
    uint64_t start_time = 0;    // clock ticks since boot, field 22 of /proc/<pid>/stat
    int32_t pid = 0;
};

Status identify_self(ProcessId &self);

std::string boot_id_text(const BootId &boot_id);

class Process {
  public:
    // Takes hold of the process that has this pid and start time. KVF_ERR_PEER_LOST: there is none (any more).
    static Status open(const ProcessId &id, Process &process);

    explicit operator bool() const { return static_cast<bool>(pidfd_); }
    // False once every thread of the process is gone, and with them every system call and mapping of it.
    bool alive() const;

    pid_t pid() const { return pid_; }
    int pidfd() const { return pidfd_.get(); }
    // /proc/<pid>, bound to this process and not to the number.
    int proc() const { return proc_.get(); }

  private:
    pid_t pid_ = 0;
    Fd pidfd_;
    Fd proc_;
};

// System calls younger than the C library that this may be built with.
int pidfd_open(pid_t pid);
int pidfd_getfd(int pidfd, int fd);

} // namespace shm
