#include "role.h"

#include <poll.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace llama {
namespace {

constexpr uint32_t kFloat32 = 1; // this engine's code for the type of its values; kvferry compares it, no more
constexpr uint32_t kDrainMs = 5000;

} // namespace

int run_role(int argc, char **argv, const char *name, const std::function<void(const RoleOptions &)> &run) {
    RoleOptions options;
    CLI::App app("One side of a split Llama, driven by lines on standard input.", name);
    app.add_option("--model", options.model, "Checkpoint in the llama2.c format")->required();
    app.add_option("--bootstrap", options.bootstrap, "host:port of the bootstrap server")->required();
    app.add_option("--transport", options.transport, "Transport to load")->capture_default_str();
    app.add_option("--transport-options", options.transport_options, "Its options, key=value,...");
    app.add_option("--pages", options.pages, "Pages of the KV pool")->capture_default_str();
    app.add_option("--slots", options.slots, "Rooms that are open at the same time")->capture_default_str();
    app.add_option("--chunk-tokens", options.chunk_tokens, "Tokens prefilled and sent at a time")
        ->capture_default_str();
    app.add_option("--seed", options.seed, "Of the order that pages are given out in")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        run(options);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 1;
    }
}

int check(int status, const char *call) {
    if (status < 0)
        fail("%s: %s: %s", call, kvf_status_name(status), kvf_last_error());
    return status;
}

void CacheEngine::Destroy::operator()(kvf_engine *engine) const {
    kvf_engine_destroy(engine, kDrainMs);
}

CacheEngine::CacheEngine(uint32_t role, const RoleOptions &options, const Config &config) {
    kvf_engine_config settings = {};
    settings.struct_size = sizeof settings;
    settings.role = role;
    settings.name = role == KVF_ROLE_PREFILL ? "llama-prefill" : "llama-decode";
    settings.bootstrap = role == KVF_ROLE_PREFILL ? options.bootstrap.c_str() : nullptr;
    settings.page_tokens = kPageTokens;
    settings.kv_cache_dtype = "float32";
    kvf_engine *engine = nullptr;
    check(kvf_engine_create(&settings, &engine), "kvf_engine_create");
    engine_.reset(engine);
    check(kvf_engine_load_transport(engine, options.transport.c_str(), options.transport_options.c_str()),
          "kvf_engine_load_transport");
    allocate(options, config);
    register_tensors(config, options.slots);
}

void CacheEngine::allocate(const RoleOptions &options, const Config &config) {
    const auto memory = [this](size_t bytes) {
        void *out = nullptr;
        check(kvf_memory_alloc(engine_.get(), bytes, &out), "kvf_memory_alloc");
        return out;
    };
    pool_.emplace(config, options.pages, memory);
    slots_ = static_cast<Slot *>(memory(options.slots * sizeof(Slot)));
}

void CacheEngine::register_tensors(const Config &config, uint32_t slots) {
    std::vector<kvf_tensor> tensors;
    for (uint32_t layer = 0; layer < static_cast<uint32_t>(config.layers); ++layer) {
        for (const Part part : {kKeys, kValues}) {
            kvf_tensor tensor = {};
            tensor.group = kCacheGroup;
            tensor.layer = layer;
            tensor.part = part == kKeys ? KVF_PART_K : KVF_PART_V;
            tensor.dtype = kFloat32;
            tensor.base = pool_->tensor(layer, part);
            tensor.page_count = pool_->pages();
            tensor.page_bytes = pool_->page_bytes();
            // A page is tokens x heads x the bytes of a head; this rank holds all heads.
            tensor.rows = kPageTokens;
            tensor.axis_count = tensor.axis_total = static_cast<uint64_t>(config.kv_heads);
            tensor.unit_bytes = static_cast<uint64_t>(config.head_size()) * sizeof(float);
            tensor.memory_kind = KVF_MEMORY_HOST;
            tensors.push_back(tensor);
        }
    }
    kvf_tensor aux = {};
    aux.group = kSlotGroup;
    aux.part = KVF_PART_AUX;
    aux.base = slots_;
    aux.page_count = slots;
    aux.page_bytes = sizeof(Slot);
    aux.memory_kind = KVF_MEMORY_HOST;
    tensors.push_back(aux);
    check(kvf_engine_register(engine_.get(), tensors.data(), tensors.size(), sizeof(kvf_tensor)),
          "kvf_engine_register");
}

void CacheEngine::close() {
    check(kvf_engine_destroy(engine_.release(), kDrainMs), "kvf_engine_destroy");
}

void CacheEngine::take_events(const std::function<void(const kvf_event &)> &visit) {
    kvf_event events[64];
    int count = 0;
    do {
        count = check(kvf_engine_events(engine_.get(), events, std::size(events), sizeof(kvf_event), 0),
                      "kvf_engine_events");
        for (int i = 0; i < count; ++i)
            visit(events[i]);
    } while (count == static_cast<int>(std::size(events)));
}

Report CacheEngine::report(kvf_room room) const {
    kvf_report report = {};
    report.struct_size = sizeof report;
    check(kvf_room_report(engine_.get(), room, &report), "kvf_room_report");
    Report out;
    out.room_id = report.room_id;
    out.state = report.state;
    out.code = report.code;
    out.bytes = report.bytes;
    out.segments = report.segments;
    out.opened_ns = report.opened_ns;
    out.waiting_ns = report.waiting_ns;
    out.posted_ns = report.posted_ns;
    out.landed_ns = report.landed_ns;
    out.ended_ns = report.ended_ns;
    out.transport = report.transport;
    out.message = report.message;
    return out;
}

void Requests::wait(kvf_engine *engine, int timeout_ms) {
    const bool listening = !ended_ && !closed_;
    pollfd descriptors[] = {
        {listening ? reader_.fd() : -1, POLLIN, 0},
        {check(kvf_engine_event_fd(engine), "kvf_engine_event_fd"), POLLIN, 0},
    };
    if (poll(descriptors, std::size(descriptors), timeout_ms) < 0 && errno != EINTR)
        fail("poll: %s", std::strerror(errno));
    if ((descriptors[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        closed_ = !reader_.read_some();
}

std::optional<std::string> Requests::next() {
    std::string line;
    if (!ended_ && reader_.next(line)) {
        if (line != "end")
            return line;
        ended_ = true;
    }
    if (closed_ && !ended_)
        fail("standard input ended without \"end\": the router is gone");
    return std::nullopt;
}

void tell(const std::string &line) {
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
}

} // namespace llama
