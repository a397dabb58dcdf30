#include "permission.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace shm {
namespace {

std::string yama_text() {
    const char *path = "/proc/sys/kernel/yama/ptrace_scope";
    const Fd file(open(path, O_RDONLY | O_CLOEXEC));
    char value = '\0';
    if (!file || read(file.get(), &value, 1) != 1 || value == '0')
        return {};
    return text("; %s is %c, where 0, or prctl(PR_SET_PTRACER) by the peer, is needed", path, value);
}

std::string owner_text(const Process &process) {
    struct stat whole {};
    struct stat inner {};
    if (fstat(process.proc(), &whole) != 0 || fstatat(process.proc(), "fd", &inner, 0) != 0)
        return {};
    // What is inside /proc/<pid> belongs to root when the process is not dumpable, whoever the process is.
    return text(" (it is of uid %u%s, we are of uid %u)", whole.st_uid,
                whole.st_uid == inner.st_uid ? "" : " and not dumpable", geteuid());
}

} // namespace

Status refused(const Process &process, const char *call, int error) {
    if (error == ESRCH)
        return fail(KVF_ERR_PEER_LOST, "%s: process %d has ended", call, process.pid());
    if (error == ENOSYS)
        return fail(KVF_ERR_PERMISSION, "%s: the kernel, or a container's seccomp profile, does not have that call",
                    call);
    if (error != EPERM && error != EACCES)
        return fail(KVF_ERR_SYSTEM, "%s of process %d: %s", call, process.pid(), errno_text(error));
    return fail(KVF_ERR_PERMISSION,
                "%s of process %d: %s%s: it takes the same uid and a dumpable process, or CAP_SYS_PTRACE%s; in a "
                "container, a seccomp profile that permits it",
                call, process.pid(), errno_text(error), owner_text(process).c_str(), yama_text().c_str());
}

} // namespace shm
