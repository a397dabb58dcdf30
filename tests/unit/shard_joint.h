// What a handshake leaves behind between a prefill and a decode side of the shards' tests.
#pragma once

#include "shard_side.h"

#include <cstdint>
#include <string>

namespace kvf {

struct Joint {
    LinkRef at_prefill, at_decode; // with the ids first_link and the one after it
    RoutesRef routes;              // at prefill
};

Joint join(Side &prefill, Side &decode, const std::string &transport, uint64_t first_link);

} // namespace kvf
