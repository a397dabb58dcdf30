#include "control/routes.h"

#include "room/planner.h"

#include <algorithm>

namespace kvf {
namespace {

Status no_region(const std::string &transport, const Tensor &tensor, const char *whose) {
    return fail(KVF_ERR_LAYOUT, "%s: %s lies in memory of %s that is not registered with it", transport.c_str(),
                describe(tensor.name).c_str(), whose);
}

GroupRoute &group_of(Routes *routes, const Tensor &ours, const Tensor &theirs) {
    if (routes->groups.empty() || routes->groups.back().group != ours.name.group) {
        GroupRoute &group = routes->groups.emplace_back();
        group.group = ours.name.group;
        group.local_pages = ours.page_count;
        group.remote_pages = theirs.page_count;
    }
    return routes->groups.back();
}

} // namespace

Status build_routes(const ExportedTransport &local, const Layout &ours, const Layout &theirs, const TransportKeys &keys,
                    PeerHandle *peer, RoutesRef *out) {
    const std::string &name = local.keys.name;
    auto routes = std::make_shared<Routes>();
    for (const Tensor &tensor : ours.tensors) {
        const auto other = std::ranges::lower_bound(theirs.tensors, tensor.name, {}, &Tensor::name);
        TensorRoute route;
        if (other == theirs.tensors.end() || other->name != tensor.name || !route_tensor(tensor, *other, &route))
            continue;
        route.layer = tensor.name.layer;
        if (tensor.region >= local.regions.size() || local.regions[tensor.region] == nullptr)
            return no_region(name, tensor, "this engine");
        if (other->region >= keys.keys.size() || keys.keys[other->region].empty())
            return no_region(name, tensor, "the peer");
        route.local = local.regions[tensor.region];
        if (Status status = peer->import(keys.keys[other->region], &route.remote); !status.ok())
            return status;
        route.local_offset += tensor.region_offset;
        route.remote_offset += other->region_offset;

        GroupRoute &group = group_of(routes.get(), tensor, *other);
        group.local_pages = std::min(group.local_pages, tensor.page_count);
        group.remote_pages = std::min(group.remote_pages, other->page_count);
        group.tensors.push_back(route);
    }
    *out = std::move(routes);
    return {};
}

} // namespace kvf
