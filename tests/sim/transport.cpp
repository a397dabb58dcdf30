#include "transport.h"

#include <algorithm>
#include <cstring>

// The plugin's own types: what the host holds pointers to.
struct kvf_instance {
    kvf::sim::Fabric *fabric;
    uint64_t id;
    std::shared_ptr<kvf::sim::Memory> memory;
    bool dead = false;
};
struct kvf_region {
    kvf_instance *instance;
    uint64_t offset, length;
};
struct kvf_peer {
    kvf_instance *instance;
    uint64_t id;
    bool fenced = false;
};
struct kvf_remote {
    std::shared_ptr<kvf::sim::Memory> memory;
    uint64_t offset, length;
    uint64_t epoch; // of the pair when the key was imported
};
struct kvf_lane {
    kvf_instance *instance;
    uint32_t shard;
    std::vector<kvf_completion> completions;
    uint32_t in_flight = 0;
};

namespace kvf::sim {

struct Fabric::Instance : kvf_instance {};
struct Fabric::Region : kvf_region {};
struct Fabric::Peer : kvf_peer {};
struct Fabric::Remote : kvf_remote {};
struct Fabric::Lane : kvf_lane {};

struct Fabric::Operation {
    uint64_t writer = 0, target = 0;
    Lane *lane = nullptr; // null once its engine is dead
    const Peer *peer = nullptr;
    uint64_t token = 0;
    std::vector<Piece> pieces;
    uint64_t bytes = 0;
    bool over = false; // completed, cancelled or dropped: nothing of it lands any more
};

Fabric *Fabric::current = nullptr;

Fabric::~Fabric() {
    for (auto &[id, instance] : instances_)
        delete instance;
}

void Fabric::introduce(uint64_t instance_id, std::shared_ptr<Memory> memory) {
    memories_[instance_id] = std::move(memory);
}

Fabric::Instance *Fabric::find(uint64_t instance_id) {
    const auto found = instances_.find(instance_id);
    return found == instances_.end() ? nullptr : found->second;
}

Fabric::Instance *Fabric::open(const kvf_open_params &params) {
    auto *instance = new Instance;
    instance->fabric = this;
    instance->id = params.instance_id;
    instance->memory = memories_.at(params.instance_id);
    instances_.emplace(instance->id, instance);
    return instance;
}

void Fabric::close(Instance *instance) {
    const auto [first, last] = instances_.equal_range(instance->id);
    for (auto it = first; it != last; ++it)
        if (it->second == instance) {
            instances_.erase(it);
            break;
        }
    delete instance;
}

void Fabric::crash(uint64_t instance_id) {
    memories_.at(instance_id)->gone = true;
    for (auto [it, last] = instances_.equal_range(instance_id); it != last; ++it)
        it->second->dead = true;
    for (const auto &operation : operations_)
        if (operation->writer == instance_id)
            operation->lane = nullptr;
    // After a while nothing of it is on the way any more.
    world_.after(weather_.linger, [this, instance_id] {
        std::vector<std::shared_ptr<Operation>> gone;
        for (const auto &operation : operations_)
            if (operation->writer == instance_id)
                gone.push_back(operation);
        for (const auto &operation : gone)
            complete(operation, KVF_ERR_TRANSPORT);
    });
}

int Fabric::post(Lane *lane, Peer *peer, const kvf_segment *segments, uint32_t count, uint64_t token,
                 uint32_t *accepted) {
    Random &random = world_.random;
    if (peer->fenced)
        return KVF_ERR_TRANSPORT;
    *accepted = 0;
    if (random.chance(weather_.full))
        return KVF_OK;
    *accepted = random.chance(weather_.partial) ? static_cast<uint32_t>(random.between(1, count)) : count;

    auto operation = std::make_shared<Operation>();
    operation->writer = lane->instance->id;
    operation->target = peer->id;
    operation->lane = lane;
    operation->peer = peer;
    operation->token = token;
    for (uint32_t i = 0; i < *accepted; ++i) {
        const kvf_segment &segment = segments[i];
        if (segment.count > 1 && !weather_.strided)
            world_.violation("a strided segment for a transport that has none");
        for (uint64_t row = 0; row < segment.count; ++row) {
            const uint64_t local = segment.local_offset + row * segment.local_stride;
            const uint64_t remote = segment.remote_offset + row * segment.remote_stride;
            if (local + segment.length > segment.local->length || remote + segment.length > segment.remote->length) {
                world_.violation("a segment leaves its region");
                continue;
            }
            operation->pieces.push_back({lane->instance->memory, segment.remote->memory, segment.local->offset + local,
                                         segment.remote->offset + remote, segment.length});
            operation->bytes += segment.length;
        }
    }
    ++lane->in_flight;
    operations_.push_back(operation);

    const bool revoked = std::any_of(segments, segments + *accepted, [&](const kvf_segment &segment) {
        return segment.remote->epoch != epochs_[{operation->writer, operation->target}];
    });
    if (revoked)
        operation->pieces.clear();
    const bool never = random.chance(weather_.never);
    const bool fails = revoked || random.chance(weather_.fails);
    uint64_t most = weather_.most_delay * (random.chance(weather_.slow) ? 100 : 1);
    uint64_t last = 0;
    for (size_t i = 0; i < operation->pieces.size(); ++i) {
        // What never ends may land late, or not at all.
        if ((never || fails) && random.chance(0.5))
            continue;
        const uint64_t delay = random.below(never ? most * 1000 : most);
        last = std::max(last, delay);
        world_.after(delay, [this, operation, i] { land(operation, i); });
    }
    if (!never)
        world_.after(last + random.below(most / 4 + 1),
                     [this, operation, fails] { complete(operation, fails ? KVF_ERR_TRANSPORT : KVF_OK); });
    return KVF_OK;
}

void Fabric::land(const std::shared_ptr<Operation> &operation, size_t index) {
    if (operation->over)
        return;
    const Piece &piece = operation->pieces[index];
    if (piece.to->gone)
        return;
    if (landed)
        landed(piece);
    std::memcpy(piece.to->bytes.data() + piece.to_offset, piece.from->bytes.data() + piece.from_offset, piece.length);
}

void Fabric::complete(const std::shared_ptr<Operation> &operation, int status) {
    if (operation->over)
        return;
    const bool lost = status == KVF_OK && (operation->pieces.empty() ? false : operation->pieces.front().to->gone);
    operation->over = true;
    std::erase(operations_, operation);
    Lane *lane = operation->lane;
    if (!lane)
        return;
    kvf_completion completion{};
    completion.token = operation->token;
    completion.status = lost ? KVF_ERR_TRANSPORT : status;
    completion.bytes = completion.status == KVF_OK ? operation->bytes : 0;
    completion.message = completion.status == KVF_OK ? nullptr : "the weather";
    lane->completions.push_back(completion);
    if (ready)
        ready(lane->instance->id, lane->shard);
}

int Fabric::poll(Lane *lane, kvf_completion *completions, uint32_t capacity) {
    const size_t count = std::min<size_t>(capacity, lane->completions.size());
    // In any order.
    for (size_t i = 0; i < count; ++i) {
        const size_t pick = world_.random.below(lane->completions.size());
        completions[i] = lane->completions[pick];
        lane->completions.erase(lane->completions.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    lane->in_flight -= static_cast<uint32_t>(count);
    return static_cast<int>(count);
}

int Fabric::cancel(Lane *lane, uint64_t token) {
    for (const auto &operation : operations_)
        if (operation->lane == lane && operation->token == token) {
            world_.after(world_.random.below(weather_.most_delay),
                         [this, operation] { complete(operation, KVF_ERR_CANCELLED); });
            return KVF_OK;
        }
    return KVF_OK;
}

void Fabric::drop_operations_of(uint64_t writer, uint64_t target) {
    std::vector<std::shared_ptr<Operation>> gone;
    for (const auto &operation : operations_)
        if (operation->writer == writer && operation->target == target)
            gone.push_back(operation);
    for (const auto &operation : gone)
        complete(operation, KVF_ERR_CANCELLED);
}

bool Fabric::any_of(uint64_t writer, uint64_t target) const {
    return std::any_of(operations_.begin(), operations_.end(), [&](const auto &operation) {
        return operation->writer == writer && operation->target == target;
    });
}

int Fabric::fence(Peer *peer) {
    const uint64_t ours = peer->instance->id;
    peer->fenced = true;
    drop_operations_of(ours, peer->id);
    const auto memory = memories_.find(peer->id);
    const bool dead = memory == memories_.end() || memory->second->gone;
    if (weather_.fence_revokes) {
        drop_operations_of(peer->id, ours);
        ++epochs_[{peer->id, ours}]; // keys that it holds of ours are void
        return KVF_OK;
    }
    return dead && !any_of(peer->id, ours) ? KVF_OK : KVF_ERR_BUSY;
}

void Fabric::forget(Peer *peer) {
    for (const auto &operation : operations_)
        if (operation->peer == peer && operation->lane)
            world_.violation("a peer is destroyed while operations to it are in flight");
    delete static_cast<Peer *>(peer);
}

void Fabric::close(Lane *lane) {
    if (lane->in_flight != 0 && !lane->instance->dead)
        world_.violation("a lane is closed with %u operations in flight", lane->in_flight);
    for (const auto &operation : operations_)
        if (operation->lane == lane)
            operation->lane = nullptr;
    delete lane;
}

} // namespace kvf::sim

// --------------------------------------------------------------------------------------------------- the plugin's
// table

namespace {

using kvf::sim::Fabric;

const kvf_host *g_host = nullptr;

int refuse(int code, const char *why) {
    g_host->fail(why);
    return code;
}

template <typename T>
int write_blob(const T &value, void *blob, size_t *size) {
    const size_t capacity = *size;
    *size = sizeof value;
    if (capacity < sizeof value)
        return KVF_ERR_RANGE;
    std::memcpy(blob, &value, sizeof value);
    return KVF_OK;
}

template <typename T>
bool read_blob(const void *blob, size_t size, T *value) {
    if (size != sizeof *value)
        return false;
    std::memcpy(value, blob, sizeof *value);
    return true;
}

struct RegionKey {
    uint64_t instance, offset, length;
};

int open_instance(const kvf_open_params *params, kvf_instance **instance) {
    *instance = Fabric::current->open(*params);
    return KVF_OK;
}

void close_instance(kvf_instance *instance) {
    instance->fabric->close(static_cast<Fabric::Instance *>(instance));
}

int address(kvf_instance *instance, void *blob, size_t *size) {
    return write_blob(instance->id, blob, size);
}

int register_region(kvf_instance *instance, const kvf_region_params *params, kvf_region **region) {
    auto *made = new Fabric::Region;
    made->instance = instance;
    made->offset = static_cast<uint64_t>(static_cast<uint8_t *>(params->base) - instance->memory->bytes.data());
    made->length = params->length;
    *region = made;
    return KVF_OK;
}

void deregister_region(kvf_instance *, kvf_region *region) {
    delete static_cast<Fabric::Region *>(region);
}

int export_key(kvf_instance *instance, kvf_region *region, void *blob, size_t *size) {
    return write_blob(RegionKey{instance->id, region->offset, region->length}, blob, size);
}

int peer_create(kvf_instance *instance, const kvf_peer_params *params, kvf_peer **peer) {
    uint64_t id = 0;
    if (!read_blob(params->address, params->address_size, &id))
        return refuse(KVF_ERR_PROTOCOL, "the address is not one of this transport");
    auto *made = new Fabric::Peer;
    made->instance = instance;
    made->id = id;
    *peer = made;
    return KVF_OK;
}

int peer_connect(kvf_peer *peer, const void *, size_t) {
    const Fabric::Instance *other = peer->instance->fabric->find(peer->id);
    return other && !other->dead ? KVF_OK : refuse(KVF_ERR_UNREACHABLE, "the peer's process is gone");
}

void peer_destroy(kvf_peer *peer) {
    peer->instance->fabric->forget(static_cast<Fabric::Peer *>(peer));
}

int import_key(kvf_peer *peer, const void *blob, size_t size, kvf_remote **remote) {
    RegionKey key{};
    const Fabric::Instance *other = peer->instance->fabric->find(peer->id);
    if (!read_blob(blob, size, &key) || key.instance != peer->id || !other)
        return refuse(KVF_ERR_PROTOCOL, "the key is not one of this peer");
    auto *made = new Fabric::Remote;
    made->memory = other->memory;
    made->offset = key.offset;
    made->length = key.length;
    made->epoch = peer->instance->fabric->epoch(peer->instance->id, peer->id);
    *remote = made;
    return KVF_OK;
}

void release_key(kvf_peer *, kvf_remote *remote) {
    delete static_cast<Fabric::Remote *>(remote);
}

int lane_open(kvf_instance *instance, uint32_t shard, kvf_lane **lane) {
    auto *made = new Fabric::Lane;
    made->instance = instance;
    made->shard = shard;
    *lane = made;
    return KVF_OK;
}

void lane_close(kvf_lane *lane) {
    lane->instance->fabric->close(static_cast<Fabric::Lane *>(lane));
}

int post(kvf_lane *lane, kvf_peer *peer, uint32_t, const kvf_segment *segments, uint32_t count, uint64_t token,
         uint32_t *accepted) {
    return lane->instance->fabric->post(static_cast<Fabric::Lane *>(lane), static_cast<Fabric::Peer *>(peer), segments,
                                        count, token, accepted);
}

int poll(kvf_lane *lane, kvf_completion *completions, uint32_t capacity) {
    return lane->instance->fabric->poll(static_cast<Fabric::Lane *>(lane), completions, capacity);
}

int cancel(kvf_lane *lane, uint64_t token) {
    return lane->instance->fabric->cancel(static_cast<Fabric::Lane *>(lane), token);
}

int fence(kvf_peer *peer) {
    const int code = peer->instance->fabric->fence(static_cast<Fabric::Peer *>(peer));
    return code == KVF_OK ? code : refuse(code, "the writer lives");
}

} // namespace

namespace kvf::sim {

int fabric_query(const kvf_host *host, kvf_plugin *plugin) {
    g_host = host;
    static kvf_transport_ops ops;
    const Weather &weather = Fabric::current->weather();
    ops = {};
    ops.struct_size = sizeof ops;
    ops.open = open_instance;
    ops.close = close_instance;
    ops.address = address;
    ops.register_region = register_region;
    ops.deregister_region = deregister_region;
    ops.export_key = export_key;
    ops.peer_create = peer_create;
    ops.peer_connect = peer_connect;
    ops.peer_destroy = peer_destroy;
    ops.import_key = import_key;
    ops.release_key = release_key;
    ops.lane_open = lane_open;
    ops.lane_close = lane_close;
    ops.post = post;
    ops.poll = poll;
    ops.cancel = weather.can_cancel ? cancel : nullptr;
    ops.fence = weather.can_fence ? fence : nullptr;
    plugin->abi_major = KVF_PLUGIN_ABI_MAJOR;
    plugin->abi_minor = KVF_PLUGIN_ABI_MINOR;
    plugin->kind = KVF_PLUGIN_TRANSPORT;
    plugin->description = "the simulator's";
    plugin->capabilities = KVF_CAP_WRITE;
    if (weather.strided)
        plugin->capabilities |= KVF_CAP_STRIDED;
    if (weather.can_cancel)
        plugin->capabilities |= KVF_CAP_CANCEL;
    if (weather.can_fence)
        plugin->capabilities |= KVF_CAP_FENCE;
    plugin->ops = &ops;
    return KVF_OK;
}

} // namespace kvf::sim
