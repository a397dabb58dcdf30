// Copies through a mapping of the peer's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shm {

// remote is where the peer's memory is mapped; op says which way.
void copy_mapped(uint32_t op, char *local, char *remote, size_t length);

} // namespace shm
