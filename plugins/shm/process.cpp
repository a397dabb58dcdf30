#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>

namespace shm {
namespace {

#ifdef SYS_pidfd_open
constexpr long kPidfdOpen = SYS_pidfd_open;
#else
constexpr long kPidfdOpen = 434;
#endif
#ifdef SYS_pidfd_getfd
constexpr long kPidfdGetfd = SYS_pidfd_getfd;
#else
constexpr long kPidfdGetfd = 438;
#endif

Status read_text(int directory, const char *path, char *buffer, size_t size) {
    const Fd file(openat(directory, path, O_RDONLY | O_CLOEXEC));
    if (!file)
        return fail(KVF_ERR_SYSTEM, "cannot open %s: %s", path, errno_text(errno));
    const ssize_t length = read(file.get(), buffer, size - 1);
    if (length < 0)
        return fail(KVF_ERR_SYSTEM, "cannot read %s: %s", path, errno_text(errno));
    buffer[length] = '\0';
    return {};
}

Status read_start_time(int proc, uint64_t &start_time) {
    char line[1024] = {};
    if (Status status = read_text(proc, "stat", line, sizeof line); !status.ok())
        return status;
    // "pid (name) state ppid ...": the name may hold blanks and brackets, so count from the last bracket. The state is
    // field 3, the start time field 22.
    const char *at = strrchr(line, ')');
    for (int field = 2; at != nullptr && field < 22; ++field) {
        at = strchr(at + 1, ' ');
    }
    if (at == nullptr)
        return fail(KVF_ERR_SYSTEM, "/proc/<pid>/stat has no field 22: \"%.80s\"", line);
    start_time = strtoull(at + 1, nullptr, 10);
    return {};
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

Status read_boot_id(BootId &boot_id) {
    const char *path = "/proc/sys/kernel/random/boot_id";
    char line[64] = {};
    if (Status status = read_text(AT_FDCWD, path, line, sizeof line); !status.ok())
        return status;
    size_t digits = 0;
    for (const char *c = line; *c != '\0' && digits < 2 * boot_id.size(); ++c) {
        const int digit = hex_digit(*c);
        if (digit < 0)
            continue; // the dashes
        uint8_t &byte = boot_id[digits++ / 2];
        byte = static_cast<uint8_t>(byte << 4 | digit);
    }
    if (digits != 2 * boot_id.size())
        return fail(KVF_ERR_SYSTEM, "%s holds no UUID: \"%s\"", path, line);
    return {};
}

} // namespace

int pidfd_open(pid_t pid) {
    return static_cast<int>(syscall(kPidfdOpen, pid, 0));
}

int pidfd_getfd(int pidfd, int fd) {
    return static_cast<int>(syscall(kPidfdGetfd, pidfd, fd, 0));
}

std::string boot_id_text(const BootId &boot_id) {
    std::string out;
    for (const uint8_t byte : boot_id)
        out += text("%02x", byte);
    return out;
}

Status identify_self(ProcessId &self) {
    ProcessId id;
    id.pid = getpid();
    if (Status status = read_boot_id(id.boot_id); !status.ok())
        return status;
    struct stat entry {};
    if (stat("/proc/self/ns/pid", &entry) != 0)
        return fail(KVF_ERR_SYSTEM, "cannot stat /proc/self/ns/pid: %s", errno_text(errno));
    id.pid_namespace = entry.st_ino;
    const Fd proc(::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!proc)
        return fail(KVF_ERR_SYSTEM, "cannot open /proc/self: %s", errno_text(errno));
    if (Status status = read_start_time(proc.get(), id.start_time); !status.ok())
        return status;
    self = id;
    return {};
}

Status Process::open(const ProcessId &id, Process &process) {
    Process found;
    found.pid_ = id.pid;
    found.pidfd_ = Fd(pidfd_open(id.pid));
    if (!found.pidfd_) {
        // The latter two for a number that is a thread's, by older and newer kernels.
        if (errno == ESRCH || errno == EINVAL || errno == ENOENT)
            return fail(KVF_ERR_PEER_LOST, "no process %d lives", id.pid);
        return fail(KVF_ERR_SYSTEM, "cannot open a pidfd of process %d: %s", id.pid, errno_text(errno));
    }
    found.proc_ = Fd(::open(text("/proc/%d", id.pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    uint64_t start_time = 0;
    Status status;
    if (!found.proc_ && (errno == ENOENT || errno == EACCES || errno == EPERM))
        status = fail(KVF_ERR_PERMISSION, "cannot open /proc/%d: %s; /proc must be mounted, and without hidepid",
                      id.pid, errno_text(errno));
    else if (!found.proc_)
        status = fail(KVF_ERR_SYSTEM, "cannot open /proc/%d: %s", id.pid, errno_text(errno));
    else
        status = read_start_time(found.proc_.get(), start_time);
    // As long as the process of the pidfd lives, its number is its own: what was opened and read by number is its too.
    if (!found.alive())
        return fail(KVF_ERR_PEER_LOST, "process %d has ended", id.pid);
    if (!status.ok())
        return status;
    if (start_time != id.start_time)
        return fail(KVF_ERR_PEER_LOST,
                    "process %d started at tick %" PRIu64 " and the peer at tick %" PRIu64
                    ": the peer has ended and its pid has another owner",
                    id.pid, start_time, id.start_time);
    process = std::move(found);
    return {};
}

bool Process::alive() const {
    pollfd entry{pidfd_.get(), POLLIN, 0};
    int ready = 0;
    do {
        ready = poll(&entry, 1, 0);
    } while (ready < 0 && errno == EINTR);
    // An error of poll itself proves no death.
    return ready <= 0;
}

} // namespace shm
