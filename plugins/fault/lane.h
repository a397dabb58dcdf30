// A lane over an inner lane: decides the fate of each operation, holds what is to be held, and tells completions when
// they are due. One thread's, as plugin.h says, but for notify.
#pragma once

#include "operation.h"
#include "wake.h"

#include <map>

namespace fault {

class Lane {
  public:
    static int open(Instance *instance, uint32_t shard, Lane **out);
    // Waits, within a second, for what the inner transport is at: only a host that closes too early needs it.
    ~Lane();
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;

    int post(Peer *peer, uint32_t kind, const kvf_segment *segments, uint32_t count, uint64_t token,
             uint32_t *accepted);
    int poll(kvf_completion *completions, uint32_t capacity);
    int wait(uint32_t timeout_ms);
    int event_fd();
    int arm();
    int cancel(uint64_t token);

    void notify() { wake_.notify(); } // any thread

  private:
    using Operations = std::map<uint64_t, Operation>; // by serial, which is the inner token: in the order of posts

    Lane(Instance *instance, uint32_t shard);

    Fate draw();
    int post_now(Operations::iterator at, const kvf_segment *segments, uint32_t count, uint32_t *accepted);
    void hold(Operation *operation, const kvf_segment *segments, uint32_t count);
    int drive_inner(uint64_t now);
    void end_fenced();
    void release_held(uint64_t now);
    void post_rest(uint64_t serial, Operation *operation, uint64_t now);
    uint32_t deliver(kvf_completion *completions, uint32_t capacity, uint64_t now);
    // Until when the lane may sleep; 0: it may not, Due::kNever: for ever.
    uint64_t next_due(uint64_t now) const;
    bool inner_busy() const;

    Instance *instance_;
    kvf_lane *inner_ = nullptr;
    Random random_;
    Wake wake_;
    uint64_t polls_ = 0;
    uint64_t next_serial_ = 1;
    Operations operations_;
    Operations told_; // by the last poll; their messages are still the host's to read
};

} // namespace fault
