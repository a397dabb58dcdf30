// One message of each kind, valid, with every field set.
#pragma once

#include "control/wire_messages.h"

#include <vector>

namespace kvf::test {

inline Tensor sample_tensor(uint32_t layer) {
    Tensor tensor;
    tensor.name = {0, layer, KVF_PART_K};
    tensor.dtype = 7;
    tensor.page_count = 100;
    tensor.rows = 16;
    tensor.axis_begin = 4;
    tensor.axis_count = 4;
    tensor.axis_total = 8;
    tensor.unit_bytes = 256;
    tensor.page_bytes = 16 * 4 * 256;
    tensor.page_stride = tensor.page_bytes + 64;
    tensor.region = 0;
    tensor.region_offset = layer * 4096;
    return tensor;
}

inline std::vector<WireMessage> sample_messages() {
    HelloMessage hello;
    hello.features = 5;
    hello.instance = 0x1122334455667788;
    hello.role = KVF_ROLE_PREFILL;
    hello.name = "prefill-0";
    hello.rank = 3;
    hello.tp = {1, 2};
    hello.pp = {0, 4};
    hello.dp = {5, 6};
    hello.proof = {1, 2, 3};
    hello.connection = 99;

    LayoutMessage layout;
    layout.layout.version = 2;
    layout.layout.tensors = {sample_tensor(0), sample_tensor(1)};
    layout.regions = {{uint64_t{1} << 30, 0}, {4096, 1}};
    layout.compared = 9;

    RegionsMessage regions;
    regions.layout_version = 2;
    regions.transports = {{"shm", {1, 2}, {{3}, {4, 5}}}, {"ucx", {}, {{6}, {}}}};

    SelectMessage select{"shm", {9, 8}};
    ReadyMessage ready{{7}, {{"shm", KVF_ERR_PERMISSION, "no"}, {"", KVF_ERR_NO_TRANSPORT, "none"}}};

    OfferMessage offer{77, 0xffffffffffffffff, 12, {{0, {5, 6, 7, 1, 0, UINT32_MAX}}, {4, {}}}};

    StatusMessage status{77, 3, {}};
    status.news = {RoomNews::kFailed, true, {KVF_ERR_TRANSPORT, 3, "broke"}, 100, 2};

    AbortMessage abort{77, 3, true, {KVF_ERR_ABORTED, 2, "enough"}, 98};
    ByeMessage bye{false, {KVF_ERR_PEER_CLOSED, 1, "closed"}};
    return {hello, layout, regions, select, ready, offer, status, abort, DrainedMessage{77, 3}, HeartbeatMessage{true},
            bye};
}

} // namespace kvf::test
