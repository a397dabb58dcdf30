#include "segment.h"

#include "region.h"
#include "remote.h"

#include <cinttypes>

namespace shm {
namespace {

// Where the last piece ends; false when that is past 2^64.
bool end_of(uint64_t offset, uint64_t stride, const kvf_segment &segment, uint64_t &end) {
    if (segment.count == 0) {
        end = offset;
        return true;
    }
    uint64_t span = 0;
    return !__builtin_mul_overflow(segment.count - 1, stride, &span) && !__builtin_add_overflow(offset, span, &end) &&
           !__builtin_add_overflow(end, segment.length, &end);
}

bool inside(uint64_t region_length, uint64_t offset, uint64_t stride, const kvf_segment &segment) {
    uint64_t end = 0;
    return end_of(offset, stride, segment, end) && end <= region_length;
}

Status outside(const char *which, uint64_t region_length, uint64_t offset, uint64_t stride,
               const kvf_segment &segment) {
    return fail(KVF_ERR_RANGE,
                "%" PRIu64 " pieces of %" PRIu64 " bytes from offset %" PRIu64 ", %" PRIu64
                " apart, leave the %s region, which has %" PRIu64 " bytes",
                segment.count, segment.length, offset, stride, which, region_length);
}

} // namespace

Status check_segment(const kvf_segment &segment, const kvf_instance &instance, const kvf_peer &peer, uint64_t &bytes) {
    if (segment.local == nullptr || segment.local->instance != &instance)
        return fail(KVF_ERR_INVALID, "a segment's local region is not of the lane's instance");
    if (segment.remote == nullptr || segment.remote->peer != &peer)
        return fail(KVF_ERR_INVALID, "a segment's remote region is not of the peer it is posted to");
    if (!inside(segment.local->length, segment.local_offset, segment.local_stride, segment))
        return outside("local", segment.local->length, segment.local_offset, segment.local_stride, segment);
    if (!inside(segment.remote->length, segment.remote_offset, segment.remote_stride, segment))
        return outside("remote", segment.remote->length, segment.remote_offset, segment.remote_stride, segment);
    if (__builtin_mul_overflow(segment.count, segment.length, &bytes))
        return fail(KVF_ERR_RANGE, "%" PRIu64 " pieces of %" PRIu64 " bytes are more than 2^64 bytes", segment.count,
                    segment.length);
    return {};
}

} // namespace shm
