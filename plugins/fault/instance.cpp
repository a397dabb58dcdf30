// Calls that are not on lanes: each either fails as the options say or goes to the inner transport.
#include "instance.h"

#include "host.h"
#include "lane.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

namespace fault {
namespace {

constexpr uint64_t kControlStream = UINT64_MAX; // no shard has that number

kvf_transport_ops full_size(const kvf_transport_ops &table) {
    kvf_transport_ops ops{};
    std::memcpy(&ops, &table, std::min<size_t>(table.struct_size, sizeof ops));
    ops.struct_size = sizeof ops;
    return ops;
}

} // namespace

Instance::Instance(const Options &options, const kvf_plugin &inner)
    : options_(options), random_(options.seed, kControlStream) {
    inner_.ops = full_size(*inner.ops);
    inner_.capabilities = inner.capabilities;
}

int Instance::open(const kvf_open_params &params, Instance **out) {
    if (params.inner == nullptr || params.inner->ops == nullptr)
        return fail(KVF_ERR_INVALID, "fault is a decorator and needs a transport below it");
    Options options;
    if (const int rc = read_options(params.options, &options); rc != KVF_OK)
        return rc;
    std::unique_ptr<Instance> instance(new Instance(options, *params.inner));
    kvf_open_params inner{};
    inner.struct_size = sizeof inner;
    inner.instance_id = params.instance_id;
    inner.options = params.inner_options != nullptr ? params.inner_options : "";
    inner.inner_options = "";
    if (const int rc = instance->inner_.ops.open(&inner, &instance->inner_.instance); rc != KVF_OK) {
        instance->inner_.instance = nullptr;
        return rc;
    }
    *out = instance.release();
    return KVF_OK;
}

Instance::~Instance() {
    if (inner_.instance != nullptr)
        inner_.ops.close(inner_.instance);
}

int Instance::register_region(const kvf_region_params *params, kvf_region **region) {
    if (random_.chance(options_.register_fail)) {
        counters_.add(Count::registrations);
        return fail(KVF_ERR_TRANSPORT, "registration failed by the fault plugin");
    }
    return inner_.ops.register_region(inner_.instance, params, region);
}

int Instance::peer_create(const kvf_peer_params *params, Peer **peer) {
    std::unique_ptr<Peer> made(new Peer{});
    made->instance = this;
    if (const int rc = inner_.ops.peer_create(inner_.instance, params, &made->inner); rc != KVF_OK)
        return rc;
    *peer = made.release();
    return KVF_OK;
}

int Instance::peer_connect(Peer *peer, const void *blob, size_t size) {
    const bool unlucky = random_.chance(options_.connect_fail);
    if (connects_++ < options_.connect_fail_first || unlucky) {
        counters_.add(Count::connects);
        return fail(KVF_ERR_UNREACHABLE, "connect failed by the fault plugin");
    }
    return inner_.ops.peer_connect(peer->inner, blob, size);
}

void Instance::peer_destroy(Peer *peer) {
    inner_.ops.peer_destroy(peer->inner);
    delete peer;
}

int Instance::import_key(Peer *peer, const void *blob, size_t size, kvf_remote **remote) {
    if (random_.chance(options_.import_fail)) {
        counters_.add(Count::imports);
        return fail(KVF_ERR_TRANSPORT, "import of a key failed by the fault plugin");
    }
    return inner_.ops.import_key(peer->inner, blob, size, remote);
}

int Instance::fence(Peer *peer) {
    if (inner_.ops.fence == nullptr)
        return fail(KVF_ERR_UNSUPPORTED, "the transport below has no fence");
    if (peer->fence.load(std::memory_order_relaxed) == Peer::Fence::none)
        peer->fence.store(Peer::Fence::asked, std::memory_order_release);
    if (peer->fences++ < options_.fence_busy)
        return fail(KVF_ERR_BUSY, "fence refused by the fault plugin");
    if (const int rc = inner_.ops.fence(peer->inner); rc != KVF_OK)
        return rc;
    // What a lane has not given to the inner transport it will not give from here on, or see it refused there.
    peer->fence.store(Peer::Fence::done, std::memory_order_release);
    const std::lock_guard<std::mutex> guard(mutex_);
    for (Lane *lane : lanes_)
        lane->notify();
    return KVF_OK;
}

int Instance::list_counters(kvf_counter *counters, size_t capacity) {
    int inner = 0;
    if (inner_.ops.counters != nullptr)
        inner = inner_.ops.counters(inner_.instance, counters, capacity);
    if (inner < 0)
        return inner;
    const size_t used = std::min(capacity, static_cast<size_t>(inner));
    return inner + counters_.list(counters + used, capacity - used);
}

void Instance::add(Lane *lane) {
    const std::lock_guard<std::mutex> guard(mutex_);
    lanes_.push_back(lane);
}

void Instance::remove(Lane *lane) {
    const std::lock_guard<std::mutex> guard(mutex_);
    lanes_.erase(std::remove(lanes_.begin(), lanes_.end(), lane), lanes_.end());
}

} // namespace fault
