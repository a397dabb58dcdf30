#include "shard_joint.h"

#include "room/planner.h"

#include <memory>
#include <utility>
#include <vector>

namespace kvf {
namespace {

using Keys = std::shared_ptr<std::vector<kvf_remote *>>;

// side's transport gets to know other's, as the handshake has them.
kvf_peer *meet(Side &side, Side &other, const std::string &transport) {
    Blob address;
    kvf_peer *peer = nullptr;
    EXPECT_TRUE(other.load(transport).transport->address(&address).ok());
    EXPECT_TRUE(side.load(transport).transport->peer_create(address, other.instance, other.name, &peer).ok());
    return peer;
}

LinkRef link_to(Side &side, Side &other, const std::string &transport, uint64_t id, const Keys &keys) {
    kvf_peer *peer = meet(side, other, transport);
    const std::shared_ptr<Transport> with = side.load(transport).transport;
    EXPECT_TRUE(with->peer_connect(peer, {}).ok());
    const auto rank = static_cast<uint32_t>(other.instance + 68);
    return std::make_shared<const Link>(id, other.instance, rank, other.name, with, peer, [with, peer, keys] {
        for (kvf_remote *key : *keys)
            with->release_key(peer, key);
        with->peer_destroy(peer);
    });
}

RoutesRef routes_to(Side &prefill, Side &decode, const std::string &transport, const LinkRef &link, const Keys &keys) {
    const Side::Loaded &ours = prefill.load(transport);
    const Side::Loaded &theirs = decode.load(transport);
    auto routes = std::make_shared<Routes>();
    for (size_t i = 0; i < prefill.layout.tensors.size(); ++i) {
        const Tensor &local = prefill.layout.tensors[i];
        const Tensor &remote = decode.layout.tensors[i];
        TensorRoute route;
        EXPECT_TRUE(route_tensor(local, remote, &route));
        Blob key;
        EXPECT_TRUE(theirs.transport->export_key(theirs.regions[remote.region], &key).ok());
        keys->emplace_back();
        EXPECT_TRUE(ours.transport->import_key(link->peer, key, &keys->back()).ok());
        route.local = ours.regions[local.region];
        route.remote = keys->back();
        route.local_offset += local.region_offset;
        route.remote_offset += remote.region_offset;
        if (routes->groups.empty() || routes->groups.back().group != local.name.group)
            routes->groups.push_back({local.name.group, local.page_count, remote.page_count, {}});
        routes->groups.back().tensors.push_back(route);
    }
    return routes;
}

} // namespace

Joint join(Side &prefill, Side &decode, const std::string &transport, uint64_t first_link) {
    const auto keys = std::make_shared<std::vector<kvf_remote *>>();
    Joint out;
    out.at_prefill = link_to(prefill, decode, transport, first_link, keys);
    out.at_decode = link_to(decode, prefill, transport, first_link + 1, std::make_shared<std::vector<kvf_remote *>>());
    out.routes = routes_to(prefill, decode, transport, out.at_prefill, keys);
    return out;
}

} // namespace kvf
