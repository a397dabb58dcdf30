// The geometry of a segment. The host sends none that leaves its regions; here nobody relies on it.
#pragma once

#include "status.h"

#include <kvferry/plugin.h>

namespace shm {

// Checks that the segment is of this instance and peer and lies inside both of its regions; bytes is what it moves.
Status check_segment(const kvf_segment &segment, const kvf_instance &instance, const kvf_peer &peer, uint64_t &bytes);

} // namespace shm
