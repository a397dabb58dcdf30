// Local memory that operations read or write, and that peers reach as long as it stands in our cookie.
#pragma once

#include "blob.h"

#include <kvferry/plugin.h>

#include <memory>

struct kvf_region final {
    static shm::Status register_with(kvf_instance &instance, const kvf_region_params &params,
                                     std::unique_ptr<kvf_region> &region);

    kvf_region(kvf_instance &of, const kvf_region_params &params)
        : instance(&of), base(static_cast<char *>(params.base)), length(params.length) {}
    kvf_region(const kvf_region &) = delete;
    kvf_region &operator=(const kvf_region &) = delete;
    ~kvf_region();

    shm::Key key() const;

    kvf_instance *const instance;
    char *const base;
    const uint64_t length;

  private:
    bool published_ = false;
    uint32_t slot_ = 0; // in the cookie
    uint64_t serial_ = 0;
};
