// Engines, memory and transports.
#include "api/boundary.h"

#include <vector>

using kvf::check_not_null;
using kvf::Status;

int kvf_engine_create(const kvf_engine_config *config, kvf_engine **engine) {
    return kvf::fenced([&]() -> Status {
        kvf_engine_config known;
        Status status = kvf::read_struct(config, "kvf_engine_config", &known);
        if (status.ok())
            status = check_not_null(engine, "engine");
        if (status.ok() && known.reserved != 0)
            status = kvf::fail(KVF_ERR_UNSUPPORTED, "kvf_engine_config: reserved is %u; expected 0", known.reserved);
        if (!status.ok())
            return status;
        auto made = std::make_unique<kvf_engine>();
        made->forks = kvf::forks();
        status = kvf::Engine::create(known, &made->engine);
        if (!status.ok())
            return status;
        made->rooms = &made->engine->rooms();
        *engine = made.release();
        return {};
    });
}

int kvf_engine_destroy(kvf_engine *engine, uint32_t drain_ms) {
    return kvf::fenced([&]() -> Status {
        if (!engine)
            return {};
        const std::unique_ptr<kvf_engine> owned(engine);
        if (engine->forks != kvf::forks()) {
            // Its threads are not in this process, nor are its locks to be trusted: all that can be done is to let go
            // of its address and connections, and to forget it.
            owned->engine->forget_in_child();
            (void)owned->engine.release();
            return {};
        }
        return engine->engine->shut_down(drain_ms);
    });
}

const char *kvf_engine_address(kvf_engine *engine) {
    return kvf::text_of_engine(engine, [](kvf::Engine &known) { return known.address().c_str(); });
}

int kvf_engine_load_transport(kvf_engine *engine, const char *name, const char *options) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        Status named = check_not_null(name, "name");
        return named.ok() ? known.load_transport(name, options ? options : "") : named;
    });
}

int kvf_engine_unload_transport(kvf_engine *engine, const char *name, uint32_t drain_ms) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        Status named = check_not_null(name, "name");
        return named.ok() ? known.unload_transport(name, drain_ms) : named;
    });
}

int kvf_memory_alloc(kvf_engine *engine, size_t bytes, void **memory) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        Status there = check_not_null(memory, "memory");
        return there.ok() ? known.allocate(bytes, memory) : there;
    });
}

int kvf_memory_free(kvf_engine *engine, void *memory) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) { return known.release(memory); });
}

int kvf_engine_register(kvf_engine *engine, const kvf_tensor *tensors, size_t count, size_t stride) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        Status status = kvf::check_array(tensors, count, stride, sizeof(kvf_tensor), "tensors");
        if (status.ok() && count == 0)
            status = kvf::fail(KVF_ERR_EMPTY, "count is 0; expected at least one tensor");
        if (!status.ok())
            return status;
        std::vector<kvf_tensor> read(count);
        for (size_t i = 0; i < count; ++i) {
            status = kvf::read_element(tensors, stride, i, "kvf_tensor", &read[i]);
            if (!status.ok())
                return status;
        }
        return known.register_tensors(read);
    });
}

int kvf_engine_counters(kvf_engine *engine, kvf_counter *counters, size_t capacity, size_t stride) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) {
        return kvf::write_list(known.counters(), counters, capacity, stride, "counters");
    });
}
