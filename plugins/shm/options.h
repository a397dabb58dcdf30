// The plugin's options: which of the two ways to a peer's memory this instance may take.
#pragma once

#include "status.h"

namespace shm {

struct Options {
    bool map = true; // map the peer's memfd and copy with memcpy
    bool cma = true; // cross-memory attach: process_vm_readv and process_vm_writev
};

// Reads "key=value,key=value"; a key that is not there takes the host's environment (KVF_SHM_MAP, KVF_SHM_CMA) and
// then the default.
Status parse_options(const char *text, Options &options);

} // namespace shm
