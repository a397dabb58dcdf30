// Keeps the host's table; kvf_plugin_query may set it again, to the same, from any thread.
#include "host.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace fault {
namespace {

std::atomic<const kvf_host *> g_host{nullptr};

} // namespace

void set_host(const kvf_host *host) {
    g_host.store(host, std::memory_order_release);
}

const kvf_host &host() {
    return *g_host.load(std::memory_order_acquire);
}

int fail(int code, const char *format, ...) {
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    host().fail(sentence);
    return code;
}

} // namespace fault
