// The sentences about what the kernel does not permit, and what would make it.
#pragma once

#include "process.h"

namespace shm {

// The status for a call that reached for the process and failed with this errno. KVF_ERR_PERMISSION for a refusal;
// other errors are worded too.
Status refused(const Process &process, const char *call, int error);

} // namespace shm
