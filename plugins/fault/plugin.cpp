// The table of operations, and the fence that keeps exceptions inside.
#include "host.h"
#include "instance.h"
#include "lane.h"

#include <exception>
#include <new>

namespace {

using fault::Instance;
using fault::Lane;
using fault::Peer;

Instance *of(kvf_instance *instance) {
    return reinterpret_cast<Instance *>(instance);
}
Peer *of(kvf_peer *peer) {
    return reinterpret_cast<Peer *>(peer);
}
Lane *of(kvf_lane *lane) {
    return reinterpret_cast<Lane *>(lane);
}

template <typename Call>
int fenced(Call call) {
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return fault::fail(KVF_ERR_NO_MEMORY, "out of memory");
    } catch (const std::exception &error) {
        return fault::fail(KVF_ERR_INTERNAL, "fault plugin: %s", error.what());
    }
}

int open(const kvf_open_params *params, kvf_instance **instance) {
    return fenced([&] { return Instance::open(*params, reinterpret_cast<Instance **>(instance)); });
}

void close(kvf_instance *instance) {
    delete of(instance);
}

int address(kvf_instance *instance, void *blob, size_t *size) {
    const fault::Inner &inner = of(instance)->inner();
    return inner.ops.address(inner.instance, blob, size);
}

int register_region(kvf_instance *instance, const kvf_region_params *params, kvf_region **region) {
    return of(instance)->register_region(params, region);
}

void deregister_region(kvf_instance *instance, kvf_region *region) {
    const fault::Inner &inner = of(instance)->inner();
    inner.ops.deregister_region(inner.instance, region);
}

int export_key(kvf_instance *instance, kvf_region *region, void *blob, size_t *size) {
    const fault::Inner &inner = of(instance)->inner();
    return inner.ops.export_key(inner.instance, region, blob, size);
}

int peer_create(kvf_instance *instance, const kvf_peer_params *params, kvf_peer **peer) {
    return fenced([&] { return of(instance)->peer_create(params, reinterpret_cast<Peer **>(peer)); });
}

// Nothing to export where the inner transport has nothing.
int peer_export(kvf_peer *peer, void *blob, size_t *size) {
    const fault::Inner &inner = of(peer)->instance->inner();
    if (inner.ops.peer_export != nullptr)
        return inner.ops.peer_export(of(peer)->inner, blob, size);
    *size = 0;
    return KVF_OK;
}

int peer_connect(kvf_peer *peer, const void *blob, size_t size) {
    return of(peer)->instance->peer_connect(of(peer), blob, size);
}

void peer_destroy(kvf_peer *peer) {
    of(peer)->instance->peer_destroy(of(peer));
}

int import_key(kvf_peer *peer, const void *blob, size_t size, kvf_remote **remote) {
    return of(peer)->instance->import_key(of(peer), blob, size, remote);
}

void release_key(kvf_peer *peer, kvf_remote *remote) {
    of(peer)->instance->inner().ops.release_key(of(peer)->inner, remote);
}

int lane_open(kvf_instance *instance, uint32_t shard, kvf_lane **lane) {
    return fenced([&] { return Lane::open(of(instance), shard, reinterpret_cast<Lane **>(lane)); });
}

void lane_close(kvf_lane *lane) {
    delete of(lane);
}

int post(kvf_lane *lane, kvf_peer *peer, uint32_t op, const kvf_segment *segments, uint32_t count, uint64_t token,
         uint32_t *accepted) {
    return fenced([&] { return of(lane)->post(of(peer), op, segments, count, token, accepted); });
}

int poll(kvf_lane *lane, kvf_completion *completions, uint32_t capacity) {
    return fenced([&] { return of(lane)->poll(completions, capacity); });
}

int wait(kvf_lane *lane, uint32_t timeout_ms) {
    return of(lane)->wait(timeout_ms);
}

int event_fd(kvf_lane *lane) {
    return of(lane)->event_fd();
}

int arm(kvf_lane *lane) {
    return of(lane)->arm();
}

int cancel(kvf_lane *lane, uint64_t token) {
    return of(lane)->cancel(token);
}

int fence(kvf_peer *peer) {
    return of(peer)->instance->fence(of(peer));
}

int counters(kvf_instance *instance, kvf_counter *list, size_t capacity) {
    return of(instance)->list_counters(list, capacity);
}

constexpr kvf_transport_ops kOps = {
    .struct_size = sizeof(kvf_transport_ops),
    .reserved = 0,
    .open = open,
    .close = close,
    .address = address,
    .register_region = register_region,
    .deregister_region = deregister_region,
    .export_key = export_key,
    .peer_create = peer_create,
    .peer_connect = peer_connect,
    .peer_destroy = peer_destroy,
    .import_key = import_key,
    .release_key = release_key,
    .lane_open = lane_open,
    .lane_close = lane_close,
    .post = post,
    .poll = poll,
    .peer_export = peer_export,
    .wait = wait,
    .event_fd = event_fd,
    .arm = arm,
    .cancel = cancel,
    .fence = fence,
    .counters = counters,
};

} // namespace

int kvf_plugin_query(const kvf_host *host, kvf_plugin *plugin) {
    plugin->abi_major = KVF_PLUGIN_ABI_MAJOR;
    plugin->abi_minor = KVF_PLUGIN_ABI_MINOR;
    if (host->abi_major != KVF_PLUGIN_ABI_MAJOR)
        return KVF_ERR_PLUGIN_ABI;
    fault::set_host(host);
    plugin->kind = KVF_PLUGIN_DECORATOR;
    plugin->name = "fault";
    plugin->description = "makes the transport below it fail, stall and reorder, from a seed; for tests";
    plugin->capabilities = KVF_CAP_WRITE | KVF_CAP_READ | KVF_CAP_STRIDED | KVF_CAP_CANCEL | KVF_CAP_FENCE |
                           KVF_CAP_WAIT | KVF_CAP_EVENT_FD;
    plugin->ops = &kOps;
    return KVF_OK;
}
