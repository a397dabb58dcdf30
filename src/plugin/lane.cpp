// Opening and closing lanes, and what is not on the hot path.
#include "plugin/lane.h"

#include "plugin/host.h"

namespace kvf {

Status Lane::open(std::shared_ptr<Transport> transport, uint32_t shard, std::unique_ptr<Lane> *out) {
    kvf_lane *lane = nullptr;
    clear_plugin_sentence();
    const int rc = transport->plugin_->ops().lane_open(transport->instance_, shard, &lane);
    if (rc != KVF_OK)
        return transport->result(rc);
    out->reset(new Lane(std::move(transport), lane));
    return {};
}

Lane::Lane(std::shared_ptr<Transport> transport, kvf_lane *lane)
    : transport_(std::move(transport)), ops_(transport_->plugin_->ops()), lane_(lane) {}

Lane::~Lane() {
    ops_.lane_close(lane_);
}

bool Lane::cancel(uint64_t token) {
    if (!can(KVF_CAP_CANCEL))
        return false;
    if (ops_.cancel(lane_, token) == KVF_OK)
        return true;
    clear_plugin_sentence(); // not to be taken for that of a later failure
    return false;
}

int Lane::event_fd() {
    return can(KVF_CAP_EVENT_FD) ? ops_.event_fd(lane_) : -1;
}

int Lane::arm() {
    if (ops_.arm == nullptr)
        return KVF_OK;
    const int rc = ops_.arm(lane_);
    if (rc != KVF_OK)
        clear_plugin_sentence();
    return rc;
}

} // namespace kvf
