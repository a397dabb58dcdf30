#include "memfd.h"

#include "permission.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cinttypes>

namespace shm {
namespace {

Status check_file_id(int fd, const Process &process, int number, const FileId &id) {
    struct stat entry {};
    if (fstat(fd, &entry) != 0)
        return fail(KVF_ERR_SYSTEM, "cannot stat descriptor %d of process %d: %s", number, process.pid(),
                    errno_text(errno));
    if (!S_ISREG(entry.st_mode) || FileId{entry.st_dev, entry.st_ino} != id)
        return fail(KVF_ERR_PROTOCOL,
                    "descriptor %d of process %d is inode %" PRIu64 " of device %" PRIu64
                    " and not the memfd that its key names, inode %" PRIu64 " of device %" PRIu64,
                    number, process.pid(), static_cast<uint64_t>(entry.st_ino), static_cast<uint64_t>(entry.st_dev),
                    id.inode, id.device);
    return {};
}

Status no_descriptor(const Process &process, int number) {
    return fail(KVF_ERR_PROTOCOL, "process %d has no descriptor %d", process.pid(), number);
}

// /proc/<pid>/fd needs less than pidfd_getfd (Yama has no say), but the same user or CAP_DAC_READ_SEARCH.
Status open_by_proc(const Process &process, int number, const FileId &id, Fd &memfd) {
    // A path descriptor first: to open whatever stands there could block or set off a device.
    const Fd path(openat(process.proc(), text("fd/%d", number).c_str(), O_PATH | O_CLOEXEC));
    if (!path && errno == ENOENT)
        return no_descriptor(process, number);
    if (!path && (errno == EACCES || errno == EPERM))
        return refused(process, "/proc/<pid>/fd", errno);
    if (!path)
        return fail(KVF_ERR_SYSTEM, "cannot open descriptor %d of process %d: %s", number, process.pid(),
                    errno_text(errno));
    if (Status status = check_file_id(path.get(), process, number, id); !status.ok())
        return status;
    memfd = Fd(open(text("/proc/self/fd/%d", path.get()).c_str(), O_RDWR | O_CLOEXEC));
    if (memfd)
        return {};
    return fail(errno == EACCES ? KVF_ERR_PERMISSION : KVF_ERR_SYSTEM,
                "cannot open descriptor %d of process %d for writing: %s", number, process.pid(), errno_text(errno));
}

Status open_by_pidfd(const Process &process, int number, const FileId &id, Fd &memfd) {
    Fd file(pidfd_getfd(process.pidfd(), number));
    if (!file && errno == EBADF)
        return no_descriptor(process, number);
    if (!file)
        return refused(process, "pidfd_getfd", errno);
    if (Status status = check_file_id(file.get(), process, number, id); !status.ok())
        return status;
    memfd = std::move(file);
    return {};
}

} // namespace

Status inspect_memfd(int fd, FileId &id, uint64_t &size) {
    struct stat entry {};
    struct statfs system {};
    if (fstat(fd, &entry) != 0 || fstatfs(fd, &system) != 0)
        return fail(KVF_ERR_SYSTEM, "cannot stat descriptor %d: %s", fd, errno_text(errno));
    // Only the ordinary kind: a page punched out of a hugetlbfs file may find no other in the pool, which is SIGBUS.
    const int seals = fcntl(fd, F_GET_SEALS);
    if (!S_ISREG(entry.st_mode) || system.f_type != TMPFS_MAGIC || seals < 0)
        return fail(KVF_ERR_UNSUPPORTED, "descriptor %d is no memfd of ordinary pages", fd);
    if ((seals & F_SEAL_SHRINK) == 0)
        return fail(KVF_ERR_UNSUPPORTED,
                    "memfd %d is not sealed with F_SEAL_SHRINK: a process that maps it would be killed if it shrank",
                    fd);
    id = {entry.st_dev, entry.st_ino};
    size = static_cast<uint64_t>(entry.st_size);
    return {};
}

Status open_memfd_of(const Process &process, int fd, const FileId &id, Fd &memfd) {
    Status status = open_by_proc(process, fd, id, memfd);
    if (status.code() != KVF_ERR_PERMISSION)
        return status;
    Status other = open_by_pidfd(process, fd, id, memfd);
    // The first refusal is the one that is easier to lift.
    return other.code() == KVF_ERR_PERMISSION ? status : other;
}

namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

// Where the memfd is in huge pages, the mapping is, if its addresses and the memfd's offsets agree modulo their size.
void *map_shared(int protection, int memfd, uint64_t begin, uint64_t size) {
    const auto offset = static_cast<off_t>(begin);
    if (size < kHugePage || size > SIZE_MAX - kHugePage)
        return mmap(nullptr, size, protection, MAP_SHARED, memfd, offset);
    void *const range = mmap(nullptr, size + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return MAP_FAILED;
    auto *const first = static_cast<char *>(range);
    const uint64_t before = (begin - reinterpret_cast<uintptr_t>(first)) % kHugePage;
    void *const data = mmap(first + before, size, protection, MAP_SHARED | MAP_FIXED, memfd, offset);
    if (data == MAP_FAILED) {
        const int error = errno;
        munmap(range, size + kHugePage);
        errno = error;
        return MAP_FAILED;
    }
    if (before != 0)
        munmap(first, before);
    // A memfd's size need not be a multiple of the page, its mapping's is.
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t mapped = (size + page - 1) / page * page;
    if (const uint64_t end = size + kHugePage; before + mapped < end)
        munmap(first + before + mapped, end - before - mapped);
    return data;
}

} // namespace

Status Mapping::map(int memfd, uint64_t begin, uint64_t size) {
    unmap();
    void *data = map_shared(protection_, memfd, begin, size);
    if (data == MAP_FAILED)
        return fail(KVF_ERR_SYSTEM, "cannot map %" PRIu64 " bytes from offset %" PRIu64 " of a peer's memfd: %s", size,
                    begin, errno_text(errno));
    // A child of ours must not keep the peer's memory after we are gone: our death is how the peer knows that nothing
    // writes there any more. Should it fail, that is left to the child, which has no lanes.
    madvise(data, size, MADV_DONTFORK);
    data_ = static_cast<char *>(data);
    size_ = size;
    owner_ = getpid();
    if (gauge_ != nullptr)
        add(*gauge_, size_);
    return {};
}

void Mapping::unmap() {
    if (data_ == nullptr)
        return;
    // In a child after fork the mapping is not there, and something else may be.
    if (owner_ == getpid())
        munmap(data_, size_);
    data_ = nullptr;
    if (gauge_ != nullptr)
        subtract(*gauge_, size_);
}

} // namespace shm
