// What this engine shows to its peers as of one moment: its layout, and for each transport the address and the keys of
// its regions. Immutable; a change makes a new one.
#pragma once

#include "control/wire_messages.h"
#include "plugin/transport.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvf {

// A transport and the layout's regions as registered with it, by their index; null where it has not registered one.
struct TransportRegions {
    std::shared_ptr<Transport> transport;
    std::vector<kvf_region *> regions;
};

struct ExportedTransport : TransportRegions {
    TransportKeys keys;
};

struct Exports {
    uint64_t revision = 0;                // grows with every change
    std::shared_ptr<const Layout> layout; // never null; of version 0 while nothing is registered
    std::vector<ExportedTransport> transports;

    const ExportedTransport *find(const std::string &name) const;
    bool registered() const { return layout->version != 0; }

    LayoutMessage layout_message(uint64_t compared) const;
    RegionsMessage regions_message() const;
};

using ExportsRef = std::shared_ptr<const Exports>;

// Asks the transport for its address and keys.
Status export_transport(const TransportRegions &from, ExportedTransport *out);

} // namespace kvf
