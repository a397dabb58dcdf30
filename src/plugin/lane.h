// One shard's lane on a transport. The data path: no Status objects and no allocation while things go well. All calls
// come from the shard's thread; one that failed has left its reason with take_plugin_sentence().
#pragma once

#include "plugin/transport.h"

#include <memory>

namespace kvf {

class Lane {
  public:
    static Status open(std::shared_ptr<Transport> transport, uint32_t shard, std::unique_ptr<Lane> *out);

    // Closes the lane; nothing is in flight on it then.
    ~Lane();
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;

    // As kvf_transport_ops::post; a result that is no status is KVF_ERR_TRANSPORT. *accepted is 0 whenever the result
    // is not KVF_OK.
    int post(kvf_peer *peer, uint32_t op, const kvf_segment *segments, uint32_t count, uint64_t token,
             uint32_t *accepted) {
        *accepted = 0;
        const int rc = ops_.post(lane_, peer, op, segments, count, token, accepted);
        if (rc == KVF_OK) [[likely]]
            return rc;
        *accepted = 0;
        return Transport::code_of(rc);
    }

    // The number of completions, whose statuses are statuses, or a negative status. More than there is a place for, or
    // a number that is no status, is KVF_ERR_TRANSPORT.
    int poll(kvf_completion *completions, uint32_t capacity) {
        const int count = ops_.poll(lane_, completions, capacity);
        if (count < 0 || static_cast<uint32_t>(count) > capacity) [[unlikely]]
            return Transport::code_of(count);
        for (int i = 0; i < count; ++i)
            if (completions[i].status != KVF_OK) [[unlikely]]
                completions[i].status = Transport::code_of(completions[i].status);
        return count;
    }

    // Whether an early end was asked for; the operation still ends by its completion. False without KVF_CAP_CANCEL.
    bool cancel(uint64_t token);

    // Readable when poll may have something; -1 without KVF_CAP_EVENT_FD. Belongs to the lane.
    int event_fd();

    // Before each sleep on the descriptor. KVF_ERR_BUSY: poll again first.
    int arm();

    bool can(uint64_t capability) const { return transport_->can(capability); }
    const std::shared_ptr<Transport> &transport() const { return transport_; }

  private:
    Lane(std::shared_ptr<Transport> transport, kvf_lane *lane);

    std::shared_ptr<Transport> transport_;
    const kvf_transport_ops &ops_; // the transport's plugin's
    kvf_lane *lane_;
};

} // namespace kvf
