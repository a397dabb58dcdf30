// One thread's resources: posts copy at once, on the calling thread, and leave a completion for the next poll.
#pragma once

#include "cma.h"
#include "completion.h"
#include "peer.h"

#include <kvferry/plugin.h>

struct kvf_lane final {
    explicit kvf_lane(kvf_instance &of) : instance(of) {}

    shm::Status post(kvf_peer &peer, uint32_t op, const kvf_segment *segments, uint32_t count, uint64_t token,
                     uint32_t &accepted);
    uint32_t poll(kvf_completion *list, uint32_t capacity);

    kvf_instance &instance;

  private:
    shm::Status admit(const kvf_peer &peer, const kvf_segment *segments, uint32_t count, uint32_t &admitted) const;
    void copy(kvf_peer &peer, uint32_t op, const kvf_segment *segments, uint32_t count, shm::Completion &completion);
    // next: what will be copied after this, null when that is not known.
    void copy_by_map(kvf_peer &peer, uint32_t op, const kvf_segment &segment, const char *next,
                     shm::Completion &completion);
    void copy_by_cma(kvf_peer &peer, uint32_t op, const kvf_segment &segment, shm::Completion &completion);
    void run_batch(kvf_peer &peer, uint32_t op, shm::Completion &completion);
    void tally(const shm::Completion &completion, uint64_t by_map);

    shm::CompletionQueue completions_;
    shm::CmaBatch batch_;
};
