#include "shared_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "channel.h"
#include "engine.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace bench {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

} // namespace

SharedPool::SharedPool(size_t bytes) : fd_(memfd_create("kvferry-bench", MFD_CLOEXEC)), size_(bytes) {
    if (fd_ < 0)
        fail("memfd_create: %s", std::strerror(errno));
    if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
        fail("a memfd of %zu bytes: %s", bytes, std::strerror(errno));
    map(0);
    touch(data_, size_);
    (void)madvise(data_, size_ / kHugePage * kHugePage, MADV_COLLAPSE); // as the library asks for its pools
}

SharedPool::SharedPool(std::string_view name) {
    const auto values = numbers(name);
    // The descriptor is the other process's.
    const std::string path = text("/proc/%d/fd/%llu", getppid(), static_cast<unsigned long long>(values.at(0)));
    size_ = values.at(1);
    fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd_ < 0)
        fail("%s: %s", path.c_str(), std::strerror(errno));
    map(MAP_POPULATE);
}

// At a huge page's boundary, so that both processes have huge pages where the memfd has.
void SharedPool::map(int flags) {
    void *range = mmap(nullptr, size_ + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        fail("reserving %zu bytes: %s", size_, std::strerror(errno));
    range_ = static_cast<char *>(range);
    data_ = range_ + -reinterpret_cast<uintptr_t>(range_) % kHugePage;
    if (mmap(data_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | flags, fd_, 0) == MAP_FAILED)
        fail("mapping %zu bytes: %s", size_, std::strerror(errno));
}

SharedPool::~SharedPool() {
    munmap(range_, size_ + kHugePage);
    close(fd_);
}

std::string SharedPool::name() const {
    return join({static_cast<uint64_t>(fd_), size_});
}

OwnPool::OwnPool(size_t bytes, KernelPages pages) : size_(bytes + kHugePage) {
    void *mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        fail("mapping %zu bytes: %s", size_, std::strerror(errno));
    mapped_ = static_cast<char *>(mapped);
    data_ = mapped_ + (kHugePage - reinterpret_cast<uintptr_t>(mapped_) % kHugePage) % kHugePage;
    // Refused where the kernel has no huge pages at all: small ones then.
    (void)madvise(mapped_, size_, pages == KernelPages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    touch(data_, bytes);
}

OwnPool::~OwnPool() {
    munmap(mapped_, size_);
}

} // namespace bench
