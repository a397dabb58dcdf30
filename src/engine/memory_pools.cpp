#include "engine/memory_pools.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace kvf {

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
    void *base = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
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
