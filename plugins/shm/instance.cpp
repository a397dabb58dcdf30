#include "instance.h"

using shm::fail;
using shm::Status;

Status kvf_instance::open(const kvf_open_params &params, std::unique_ptr<kvf_instance> &instance) {
    if (params.struct_size < sizeof params)
        return fail(KVF_ERR_INVALID, "kvf_open_params has %u bytes; shm reads %zu", params.struct_size, sizeof params);
    auto made = std::make_unique<kvf_instance>();
    if (Status status = shm::parse_options(params.options, made->options); !status.ok())
        return status;
    if (Status status = shm::identify_self(made->self); !status.ok())
        return status;
    if (Status status = made->cookie.bake(params.instance_id); !status.ok())
        return status;
    made->id = params.instance_id;
    instance = std::move(made);
    return {};
}

shm::Address kvf_instance::address() const {
    shm::Address out{};
    out.boot_id = self.boot_id;
    out.pid_namespace = self.pid_namespace;
    out.start_time = self.start_time;
    out.pid = self.pid;
    out.cookie_fd = cookie.fd();
    out.nonce = cookie.nonce();
    out.instance_id = id;
    out.cookie_file = cookie.file();
    return out;
}

int kvf_instance::read_counters(kvf_counter *list, size_t capacity) const {
    const struct {
        const char *name;
        const shm::Counter &value;
    } all[] = {
        {"map_bytes", counters.map_bytes},
        {"cma_bytes", counters.cma_bytes},
        {"operations", counters.operations},
        {"failures", counters.failures},
        {"open_mapped_bytes", counters.open_mapped_bytes},
    };
    int count = 0;
    for (const auto &counter : all) {
        if (static_cast<size_t>(count) < capacity)
            list[count] = {counter.name, counter.value.load(std::memory_order_relaxed)};
        ++count;
    }
    return count;
}
