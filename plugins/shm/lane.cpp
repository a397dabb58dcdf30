#include "lane.h"

#include "instance.h"
#include "map_copy.h"
#include "region.h"
#include "remote.h"
#include "segment.h"

#include <algorithm>

using shm::Completion;
using shm::fail;
using shm::Status;

namespace {

// What one post takes on: it holds the thread for as long as the copy takes, about a millisecond, so that the rooms of
// a shard take turns.
constexpr uint32_t kSegmentsPerPost = 1024;
constexpr uint64_t kBytesPerPost = 4 << 20;

// Between two steps a fence may come in.
constexpr uint64_t kStep = shm::CmaBatch::kBytes;

bool stopped(const kvf_peer &peer, Completion &completion) {
    if (!peer.gate.is_shut())
        return false;
    completion.fail(KVF_ERR_CANCELLED, "%s was fenced during the copy", peer.name.c_str());
    return true;
}

// Before each page of a scattered list stand two address translations. Begun this many segments ahead they are done in
// time, which gives pages of 4 KiB a quarter more bandwidth.
constexpr uint32_t kAhead = 4;

void prepare(const kvf_segment &segment) {
    if (segment.remote->pool == nullptr)
        return;
    __builtin_prefetch(segment.local->base + segment.local_offset);
    __builtin_prefetch(segment.remote->data() + segment.remote_offset);
}

// Where a segment is read from; null where that is not in this process's address space.
const char *source_of(uint32_t op, const kvf_segment &segment) {
    if (op == KVF_OP_WRITE)
        return segment.local->base + segment.local_offset;
    return segment.remote->pool == nullptr ? nullptr : segment.remote->data() + segment.remote_offset;
}

} // namespace

Status kvf_lane::post(kvf_peer &peer, uint32_t op, const kvf_segment *segments, uint32_t count, uint64_t token,
                      uint32_t &accepted) {
    accepted = 0;
    if (op != KVF_OP_WRITE && op != KVF_OP_READ)
        return fail(KVF_ERR_UNSUPPORTED, "shm has no operation %u", op);
    if (completions_.full())
        return {};
    uint32_t admitted = 0;
    if (Status status = admit(peer, segments, count, admitted); !status.ok())
        return status;
    const shm::Passage passage(peer.gate);
    if (!passage)
        return fail(KVF_ERR_CANCELLED, "%s is fenced", peer.name.c_str());
    if (Status status = peer.standing(); !status.ok())
        return status;
    Completion &completion = completions_.push();
    completion.begin(token);
    copy(peer, op, segments, admitted, completion);
    accepted = admitted;
    return {};
}

// The segments that this post takes on: at least the first.
Status kvf_lane::admit(const kvf_peer &peer, const kvf_segment *segments, uint32_t count, uint32_t &admitted) const {
    if (count == 0)
        return fail(KVF_ERR_INVALID, "a post of no segments");
    uint64_t room = kBytesPerPost;
    for (admitted = 0; admitted < std::min(count, kSegmentsPerPost); ++admitted) {
        uint64_t bytes = 0;
        Status status = shm::check_segment(segments[admitted], instance, peer, bytes);
        // One that is wrong further on is told to the post that has it first.
        if (!status.ok())
            return admitted == 0 ? status : Status();
        if (bytes > room && admitted > 0)
            break;
        room -= std::min(bytes, room);
    }
    return {};
}

void kvf_lane::copy(kvf_peer &peer, uint32_t op, const kvf_segment *segments, uint32_t count, Completion &completion) {
    uint64_t by_map = 0;
    for (uint32_t i = 0; i < count && completion.ok(); ++i) {
        if (kAhead < count - i)
            prepare(segments[i + kAhead]);
        if (segments[i].remote->pool == nullptr) {
            copy_by_cma(peer, op, segments[i], completion);
        } else {
            const uint64_t before = completion.bytes();
            copy_by_map(peer, op, segments[i], i + 1 < count ? source_of(op, segments[i + 1]) : nullptr, completion);
            by_map += completion.bytes() - before;
        }
    }
    shm::finish_mapped();
    run_batch(peer, op, completion);
    // A copy into the memory of a dead process succeeds, but nobody reads it.
    if (completion.ok() && !peer.alive())
        completion.fail(KVF_ERR_PEER_LOST, "%s (process %d) has died", peer.name.c_str(), peer.process.pid());
    tally(completion, by_map);
}

void kvf_lane::copy_by_map(kvf_peer &peer, uint32_t op, const kvf_segment &segment, const char *next,
                           Completion &completion) {
    char *local = segment.local->base + segment.local_offset;
    char *remote = segment.remote->data() + segment.remote_offset;
    const uint64_t pieces = segment.length == 0 ? 0 : segment.count;
    const uint64_t source_stride = op == KVF_OP_WRITE ? segment.local_stride : segment.remote_stride;
    for (uint64_t i = 0; i < pieces; ++i) {
        const char *const after = i + 1 < pieces ? (op == KVF_OP_WRITE ? local : remote) + source_stride : next;
        for (uint64_t done = 0; done < segment.length;) {
            if (stopped(peer, completion))
                return;
            const uint64_t step = std::min(kStep, segment.length - done);
            shm::copy_mapped(op, local + done, remote + done, step, after);
            completion.moved(step);
            done += step;
        }
        local += segment.local_stride;
        remote += segment.remote_stride;
    }
}

void kvf_lane::copy_by_cma(kvf_peer &peer, uint32_t op, const kvf_segment &segment, Completion &completion) {
    char *local = segment.local->base + segment.local_offset;
    uint64_t remote = segment.remote->address + segment.remote_offset;
    const uint64_t pieces = segment.length == 0 ? 0 : segment.count;
    for (uint64_t i = 0; i < pieces && completion.ok(); ++i) {
        for (uint64_t done = 0; done < segment.length && completion.ok();) {
            done += batch_.add(local + done, remote + done, segment.length - done);
            if (batch_.full())
                run_batch(peer, op, completion);
        }
        local += segment.local_stride;
        remote += segment.remote_stride;
    }
}

void kvf_lane::run_batch(kvf_peer &peer, uint32_t op, Completion &completion) {
    if (batch_.empty())
        return;
    if (!completion.ok() || stopped(peer, completion)) {
        batch_.clear();
        return;
    }
    batch_.run(op, peer, completion);
}

void kvf_lane::tally(const Completion &completion, uint64_t by_map) {
    shm::Counters &counters = instance.counters;
    shm::add(counters.operations, 1);
    shm::add(counters.failures, completion.ok() ? 0 : 1);
    shm::add(counters.map_bytes, by_map);
    shm::add(counters.cma_bytes, completion.bytes() - by_map);
}

uint32_t kvf_lane::poll(kvf_completion *list, uint32_t capacity) {
    uint32_t taken = 0;
    while (taken < capacity && !completions_.empty())
        list[taken++] = completions_.pop().report();
    return taken;
}
