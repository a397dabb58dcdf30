#include "control/exports.h"

#include <algorithm>

namespace kvf {

const ExportedTransport *Exports::find(const std::string &name) const {
    const auto it = std::ranges::find(transports, name, [](const ExportedTransport &it) { return it.keys.name; });
    return it != transports.end() ? &*it : nullptr;
}

LayoutMessage Exports::layout_message(uint64_t compared) const {
    LayoutMessage out;
    out.layout.version = layout->version;
    out.layout.tensors = layout->tensors;
    for (const MemoryRegion &region : layout->regions)
        out.regions.push_back({region.length, region.memory_kind});
    out.compared = compared;
    return out;
}

RegionsMessage Exports::regions_message() const {
    RegionsMessage out;
    out.layout_version = layout->version;
    for (const ExportedTransport &transport : transports)
        out.transports.push_back(transport.keys);
    return out;
}

Status export_transport(const TransportRegions &from, ExportedTransport *out) {
    out->transport = from.transport;
    out->regions = from.regions;
    out->keys.name = from.transport->name();
    if (Status status = from.transport->address(&out->keys.address); !status.ok())
        return status;
    out->keys.keys.clear();
    for (kvf_region *region : from.regions) {
        Bytes &key = out->keys.keys.emplace_back();
        if (region == nullptr)
            continue;
        if (Status status = from.transport->export_key(region, &key); !status.ok())
            return status;
    }
    return {};
}

} // namespace kvf
