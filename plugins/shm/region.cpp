#include "region.h"

#include "host.h"
#include "instance.h"

#include <cinttypes>

using shm::fail;
using shm::Status;

namespace {

Status check(const kvf_region_params &params) {
    if (params.struct_size < sizeof params)
        return fail(KVF_ERR_INVALID, "kvf_region_params has %u bytes; shm reads %zu", params.struct_size,
                    sizeof params);
    if (params.memory_kind != KVF_MEMORY_HOST) {
        const char *kind = shm::host().memory_kind(params.memory_kind);
        return fail(KVF_ERR_UNSUPPORTED, "shm moves host memory only, not memory of kind %u (%s)", params.memory_kind,
                    kind == nullptr ? "unknown" : kind);
    }
    if (params.base == nullptr || params.length == 0)
        return fail(KVF_ERR_EMPTY, "a region of %" PRIu64 " bytes at %p holds nothing", params.length, params.base);
    uint64_t end = 0;
    if (__builtin_add_overflow(reinterpret_cast<uintptr_t>(params.base), params.length, &end))
        return fail(KVF_ERR_RANGE, "a region of %" PRIu64 " bytes at %p wraps", params.length, params.base);
    return {};
}

// Our own memfd is held to what peers hold it to, so that the one who gave it hears of it and not the peer.
Status take_memfd(const kvf_region_params &params, shm::RegionRecord &record) {
    uint64_t size = 0;
    if (Status status = shm::inspect_memfd(params.fd, record.file, size); !status.ok())
        return status;
    uint64_t end = 0;
    if (__builtin_add_overflow(params.fd_offset, params.length, &end) || end > size)
        return fail(KVF_ERR_RANGE,
                    "a region of %" PRIu64 " bytes from offset %" PRIu64 " is outside memfd %d, which has %" PRIu64,
                    params.length, params.fd_offset, params.fd, size);
    record.fd = params.fd;
    record.fd_offset = params.fd_offset;
    return {};
}

} // namespace

Status kvf_region::register_with(kvf_instance &instance, const kvf_region_params &params,
                                 std::unique_ptr<kvf_region> &region) {
    if (Status status = check(params); !status.ok())
        return status;
    shm::RegionRecord record;
    record.base = reinterpret_cast<uintptr_t>(params.base);
    record.length = params.length;
    if (params.fd >= 0) {
        if (Status status = take_memfd(params, record); !status.ok())
            return status;
    }
    auto made = std::make_unique<kvf_region>(instance, params);
    if (Status status = instance.cookie.add(record, made->slot_, made->serial_); !status.ok())
        return status;
    made->published_ = true;
    region = std::move(made);
    return {};
}

kvf_region::~kvf_region() {
    if (published_)
        instance->cookie.remove_region(slot_);
}

shm::Key kvf_region::key() const {
    shm::Key out{};
    out.nonce = instance->cookie.nonce();
    out.slot = slot_;
    out.serial = serial_;
    return out;
}
