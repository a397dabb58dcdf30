// Local memory that operations read or write, and that a key lets peers reach.
#pragma once

#include "blob.h"

#include <kvferry/plugin.h>

#include <memory>

struct kvf_region final {
    static shm::Status register_with(kvf_instance &instance, const kvf_region_params &params,
                                     std::unique_ptr<kvf_region> &region);

    shm::Key key() const;

    const kvf_instance *instance = nullptr;
    char *base = nullptr;
    uint64_t length = 0;
    int fd = -1; // the host's, open while the region is registered
    uint64_t fd_offset = 0;
    shm::FileId file;
};
