#include "host.h"

#include <atomic>

namespace shm {
namespace {

// Written by each query, read by any thread.
std::atomic<const kvf_host *> g_host{nullptr};

} // namespace

void set_host(const kvf_host *host) {
    g_host.store(host, std::memory_order_release);
}

const kvf_host &host() {
    return *g_host.load(std::memory_order_acquire);
}

} // namespace shm
