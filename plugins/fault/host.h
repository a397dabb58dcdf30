// The host's services as this plugin uses them.
#pragma once

#include <kvferry/plugin.h>

namespace fault {

void set_host(const kvf_host *host);
const kvf_host &host();

// Words the failure for the host, as printf does, and returns the code.
[[gnu::format(printf, 2, 3)]] int fail(int code, const char *format, ...);

} // namespace fault
