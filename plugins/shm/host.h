// The services that the host gave to kvf_plugin_query, for every file here.
#pragma once

#include <kvferry/plugin.h>

namespace shm {

// The table lives as long as the process.
void set_host(const kvf_host *host);
const kvf_host &host();

} // namespace shm
