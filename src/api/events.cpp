// The event queue.
#include "api/boundary.h"

int kvf_engine_events(kvf_engine *engine, kvf_event *events, size_t capacity, size_t stride, uint32_t timeout_ms) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) {
        const kvf::Status fits = kvf::check_array(events, capacity, stride, sizeof(kvf_event), "events");
        return fits.ok() ? known.events(events, capacity, stride, timeout_ms) : kvf::tell(fits);
    });
}

int kvf_engine_event_fd(kvf_engine *engine) {
    return kvf::on_engine(engine, [](kvf::Engine &known) { return known.event_descriptor(); });
}
