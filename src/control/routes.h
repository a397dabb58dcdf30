// From two layouts and the keys of one transport to the routes that shards plan with.
#pragma once

#include "control/exports.h"
#include "control/peer_handle.h"
#include "room/link.h"

#include <string>

namespace kvf {

// Imports the peer's keys and pairs the tensors of both layouts by name. theirs fits ours (compare_layouts); keys are
// the peer's, one for each of its regions. KVF_ERR_LAYOUT, or what the transport says.
Status build_routes(const ExportedTransport &local, const Layout &ours, const Layout &theirs, const TransportKeys &keys,
                    PeerHandle *peer, RoutesRef *out);

} // namespace kvf
