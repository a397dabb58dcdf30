#include "starved.h"

#include <cstdlib>
#include <new>

namespace kvf {

thread_local int t_allocations_left = -1;

} // namespace kvf

void *operator new(size_t bytes) {
    void *memory = kvf::t_allocations_left >= 0 && kvf::t_allocations_left-- == 0 ? nullptr : std::malloc(bytes);
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

void operator delete(void *memory) noexcept {
    std::free(memory);
}

void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}
