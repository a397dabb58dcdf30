#include "engine/memory_pools.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // Linux 6.1; other kernels refuse it
#endif

namespace kvf {
namespace {

constexpr size_t kHugePage = size_t{2} << 20; // of x86-64, and of arm64 with pages of 4 KiB

// Scattered pages of a pool cost about as much for the lookup of their addresses as for the copy. In huge pages, which
// a peer's mapping of the same memfd shares, they don't; they need a base at a multiple of their size.
void *map_pool(int fd, size_t length) {
    if (length < kHugePage)
        return mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const size_t reserved = length + kHugePage;
    if (reserved < length)
        return MAP_FAILED;
    void *const range = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return MAP_FAILED;
    auto *const begin = static_cast<uint8_t *>(range);
    const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePage;
    void *const base = mmap(begin + before, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (base == MAP_FAILED) {
        munmap(range, reserved);
        return MAP_FAILED;
    }
    if (before != 0)
        munmap(begin, before);
    if (const size_t behind = kHugePage - before; behind != 0)
        munmap(begin + before + length, behind);
    // The kernel makes one of what is there, and of nothing it makes none. Where it has none, or not enough, the pool
    // stays in small ones, of which it gives some when they are first touched.
    const size_t whole = length / kHugePage * kHugePage;
    for (size_t at = 0; at < whole; at += kHugePage)
        if (fallocate(fd, 0, static_cast<off_t>(at), 1) != 0)
            return base;
    (void)madvise(base, whole, MADV_COLLAPSE);
    return base;
}

} // namespace

MemoryPools::~MemoryPools() {
    for (const auto &[base, entry] : pools_)
        munmap(base, entry.length);
}

Status MemoryPools::allocate(size_t bytes, void **memory) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (bytes == 0)
        return fail(KVF_ERR_EMPTY, "bytes is 0; expected at least 1");
    if (bytes > SIZE_MAX - page)
        return fail(KVF_ERR_NO_MEMORY, "%zu bytes are more than there can be", bytes);
    const size_t length = (bytes + page - 1) / page * page;
    OwnedFd fd(memfd_create("kvferry", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd.get() < 0)
        return fail_system(errno, "memfd_create");
    if (ftruncate(fd.get(), static_cast<off_t>(length)) != 0 ||
        fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return fail(KVF_ERR_NO_MEMORY, "a memfd of %zu bytes%s", length, fail_system(errno, "").sentence().c_str());
    }
    void *base = map_pool(fd.get(), length);
    if (base == MAP_FAILED)
        return fail(KVF_ERR_NO_MEMORY, "mapping %zu bytes%s", length, fail_system(errno, "").sentence().c_str());
    const std::lock_guard lock(mutex_);
    pools_.emplace(static_cast<uint8_t *>(base), Entry{length, std::move(fd)});
    *memory = base;
    return {};
}

Status MemoryPools::release(void *memory) {
    const std::lock_guard lock(mutex_);
    const auto pool = pools_.find(static_cast<uint8_t *>(memory));
    if (pool == pools_.end())
        return fail(KVF_ERR_INVALID, "%p was not given by kvf_memory_alloc of this engine, or is freed already",
                    memory);
    munmap(memory, pool->second.length);
    pools_.erase(pool);
    return {};
}

bool MemoryPools::touches(const void *base, uint64_t length) const {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<uintptr_t>(base);
    return std::ranges::any_of(pools_, [&](const auto &pool) {
        const auto at = reinterpret_cast<uintptr_t>(pool.first);
        return at < begin + length && begin < at + pool.second.length;
    });
}

std::optional<MemoryPools::Pool> MemoryPools::find(const void *base, uint64_t length) const {
    const std::lock_guard lock(mutex_);
    // As numbers: the range may be anywhere, and may not even be memory.
    const auto begin = reinterpret_cast<uintptr_t>(base);
    auto next = pools_.upper_bound(reinterpret_cast<uint8_t *>(begin));
    if (next == pools_.begin())
        return {};
    const auto &[pool, entry] = *std::prev(next);
    const uintptr_t offset = begin - reinterpret_cast<uintptr_t>(pool);
    if (offset > entry.length || length > entry.length - offset)
        return {};
    return Pool{pool, entry.length, entry.fd.get()};
}

} // namespace kvf
