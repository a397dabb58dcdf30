// Copies through a mapping of the peer's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shm {

// remote is where the peer's memory is mapped; op says which way. next is where the copy after this one will read, or
// null: a processor's own prefetching ends with the page.
void copy_mapped(uint32_t op, char *local, char *remote, size_t length, const char *next);

// After the last of some copies and before anything that says that they are there. To wait for each copy by itself
// costs pages of 4 KiB a fifth of their bandwidth.
void finish_mapped();

} // namespace shm
