#include "engine.h"

namespace bench {
namespace {

constexpr size_t kKernelPage = 4096;

kvf_index_list list_of(std::span<const uint32_t> pages, uint32_t group) {
    return {group, static_cast<uint32_t>(pages.size()), pages.data()};
}

} // namespace

kvf_engine_config engine_config(uint32_t role, const char *name, uint32_t shards) {
    kvf_engine_config config{};
    config.struct_size = sizeof config;
    config.role = role;
    config.name = name;
    config.shards = shards;
    // A benchmark that hangs must end: nothing here takes minutes.
    config.bootstrap_ms = kPatienceMs;
    config.waiting_ms = 2 * kPatienceMs;
    config.transfer_ms = 2 * kPatienceMs;
    return config;
}

kvf_tensor tensor(uint32_t group, uint32_t layer, void *base, uint64_t page_count, uint64_t page_bytes) {
    kvf_tensor out{};
    out.group = group;
    out.layer = layer;
    out.part = KVF_PART_LATENT;
    out.base = base;
    out.page_count = page_count;
    out.page_bytes = page_bytes;
    return out;
}

void touch(char *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kKernelPage)
        *static_cast<volatile char *>(memory + at) = 1;
}

Engine::Engine(const kvf_engine_config &config, const char *transport_options) {
    check(kvf_engine_create(&config, &engine_), "kvf_engine_create");
    if (!transport_options)
        return;
    const int loaded = kvf_engine_load_transport(engine_, "shm", transport_options);
    if (loaded < 0) {
        const std::string why = kvf_last_error();
        kvf_engine_destroy(engine_, 0);
        fail("kvf_engine_load_transport: %s", why.c_str());
    }
}

Engine::~Engine() {
    kvf_engine_destroy(engine_, 2000);
}

char *Engine::allocate(size_t bytes) {
    void *memory = nullptr;
    check(kvf_memory_alloc(engine_, bytes, &memory), "kvf_memory_alloc");
    touch(static_cast<char *>(memory), bytes);
    return static_cast<char *>(memory);
}

void Engine::register_tensors(std::span<const kvf_tensor> tensors) {
    check(kvf_engine_register(engine_, tensors.data(), tensors.size(), sizeof(kvf_tensor)), "kvf_engine_register");
}

kvf_room Engine::open_sender(uint64_t id) {
    kvf_room room{};
    until_taken("kvf_room_open_sender", [&] { return kvf_room_open_sender(engine_, id, nullptr, &room); });
    return room;
}

kvf_room Engine::open_receiver(const std::string &prefill, uint64_t id) {
    kvf_room room{};
    until_taken("kvf_room_open_receiver",
                [&] { return kvf_room_open_receiver(engine_, prefill.c_str(), id, nullptr, &room); });
    return room;
}

void Engine::accept(kvf_room room, std::span<const uint32_t> pages, uint32_t group) {
    const kvf_index_list list = list_of(pages, group);
    until_taken("kvf_room_accept", [&] { return kvf_room_accept(engine_, room, &list, 1, sizeof list); });
}

void Engine::send(kvf_room room, std::span<const uint32_t> pages, uint32_t group, uint32_t flags) {
    const kvf_index_list list = list_of(pages, group);
    kvf_chunk chunk{};
    chunk.struct_size = sizeof chunk;
    chunk.flags = flags;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    until_taken("kvf_room_send", [&] { return kvf_room_send(engine_, room, &chunk); });
}

void Engine::close(kvf_room room) {
    check(kvf_room_close(engine_, room), "kvf_room_close");
}

uint32_t Engine::state(kvf_room room) const {
    kvf_room_status status{};
    status.struct_size = sizeof status;
    check(kvf_room_poll(engine_, room, &status), "kvf_room_poll");
    return status.state;
}

void Engine::wait_for(kvf_room room, uint32_t wanted) const {
    const uint64_t give_up = now_ns() + uint64_t{kPatienceMs} * 1'000'000;
    for (;;) {
        const uint32_t now = state(room);
        if (now == KVF_STATE_FAILED)
            fail("a room failed: %s", why(room).c_str());
        if (now >= wanted)
            return;
        if (now_ns() > give_up)
            fail("a room was in state %u after %u ms, and not in state %u", now, kPatienceMs, wanted);
        const timespec pause{0, 20'000};
        nanosleep(&pause, nullptr);
    }
}

void Engine::wait_success(kvf_room room) const {
    kvf_room_status status{};
    status.struct_size = sizeof status;
    check(kvf_room_wait(engine_, room, kPatienceMs, &status), "kvf_room_wait");
    if (status.state != KVF_STATE_SUCCESS)
        fail("a room failed: %s", why(room).c_str());
}

kvf_report Engine::report(kvf_room room) const {
    kvf_report report{};
    report.struct_size = sizeof report;
    check(kvf_room_report(engine_, room, &report), "kvf_room_report");
    return report;
}

std::string Engine::why(kvf_room room) const {
    const kvf_report known = report(room);
    return text("room %llu: %s (%s)", static_cast<unsigned long long>(known.room_id), known.message,
                kvf_status_name(known.code));
}

} // namespace bench
