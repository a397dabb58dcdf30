#include "holds.h"

#include "base/log.h"

#include <cstdio>
#include <cstdlib>

namespace kvf::fuzz {

void holds(bool it_does, const char *promise) {
    if (it_does)
        return;
    std::fprintf(stderr, "broken promise: %s\n", promise);
    std::abort();
}

void holds(const Status &status, const char *promise) {
    if (!status.ok())
        std::fprintf(stderr, "%s\n", status.sentence().c_str());
    holds(status.ok(), promise);
}

void quiet() {
    log_set([](void *, int32_t, const char *) {}, nullptr, KVF_LOG_DEBUG);
}

} // namespace kvf::fuzz
