#include "pools.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>

namespace shm {
namespace {

struct Range {
    uint64_t begin, end;
};

// In whole pages.
Range range_of(const RegionRecord &region) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return {region.fd_offset / page * page, (region.fd_offset + region.length + page - 1) / page * page};
}

// Whether it ends behind what any file may have; range_of is for what does not.
bool wraps(const RegionRecord &region) {
    uint64_t end = 0;
    return __builtin_add_overflow(region.fd_offset, region.length, &end) || end > INT64_MAX;
}

// The run that the region is of: regions that overlap or touch.
Range run_of(const RegionRecord &region, const std::vector<RegionRecord> &all) {
    std::vector<Range> ranges{range_of(region)};
    for (const RegionRecord &other : all) {
        if (!wraps(other))
            ranges.push_back(range_of(other));
    }
    const Range wanted = ranges.front();
    std::ranges::sort(ranges, {}, &Range::begin);
    Range run = ranges.front();
    for (const Range &range : ranges) {
        if (range.begin > run.end && run.end >= wanted.end)
            break;
        if (range.begin > run.end)
            run = range;
        run.end = std::max(run.end, range.end);
    }
    return run;
}

} // namespace

Status Pool::map(int memfd, uint64_t end) {
    end_ = end;
    return mapping_.map(memfd, begin_, end - begin_);
}

bool Pool::covers(const RegionRecord &region) const {
    const Range range = range_of(region);
    return mapping_.data() != nullptr && region.file == file_ && begin_ <= range.begin && range.end <= end_;
}

Status Pools::get(const Process &process, const PeerCookie &cookie, const RegionRecord &region, Counter *gauge,
                  std::shared_ptr<Pool> &pool) {
    if (wraps(region))
        return fail(KVF_ERR_RANGE, "process %d registered %" PRIu64 " bytes at offset %" PRIu64 " of a memfd",
                    process.pid(), region.length, region.fd_offset);
    pool = find(region);
    if (pool != nullptr)
        return {};
    drop_released();
    if (held_.size() >= kMost)
        return fail(KVF_ERR_TRANSPORT,
                    "process %d has its regions in more than %zu memfds, or as many places of one, which is all that "
                    "is mapped of a peer",
                    process.pid(), kMost);
    Fd memfd;
    if (Status status = open_memfd_of(process, region.fd, region.file, memfd); !status.ok())
        return status;
    FileId id;
    uint64_t size = 0;
    if (Status status = inspect_memfd(memfd.get(), id, size); !status.ok())
        return {status.code(), text("process %d: ", process.pid()) + status.sentence()};
    const Range run = run_of(region, cookie.regions_of(region.file));
    // Behind the end of a file there is nothing but SIGBUS.
    if (range_of({0, size, {}, 0, 0}).end < run.end)
        return fail(KVF_ERR_RANGE,
                    "process %d registered memory up to offset %" PRIu64 " of a memfd that has %" PRIu64 " bytes",
                    process.pid(), run.end, size);
    auto made = std::make_shared<Pool>(region.file, run.begin, gauge);
    if (Status status = made->map(memfd.get(), run.end); !status.ok())
        return status;
    held_.emplace(Place{region.file.device, region.file.inode, run.begin}, made);
    pool = std::move(made);
    return {};
}

// Backwards from the last that begins no later: nearly always it is that one.
std::shared_ptr<Pool> Pools::find(const RegionRecord &region) const {
    const Place place{region.file.device, region.file.inode, range_of(region).begin};
    for (auto at = held_.upper_bound(place); at != held_.begin();) {
        --at;
        if (at->first.device != place.device || at->first.inode != place.inode)
            break;
        std::shared_ptr<Pool> pool = at->second.lock();
        if (pool != nullptr && pool->covers(region))
            return pool;
    }
    return nullptr;
}

void Pools::drop_released() {
    std::erase_if(held_, [](const Held::value_type &it) { return it.second.expired(); });
}

void Pools::unmap() {
    for (const auto &[place, held] : held_) {
        if (const std::shared_ptr<Pool> pool = held.lock())
            pool->unmap();
    }
}

} // namespace shm
