#include "engine.h"

#include "base/clock.h"

#include <algorithm>
#include <cstdlib>

namespace kvf::sim {
namespace {

bool is_limited(const ToShard &message) {
    return message.index() <= 3;
}

} // namespace

SimEngine::SimEngine(World &world, Fabric &fabric, Network &network, const EngineParams &params)
    : world_(world),
      fabric_(fabric),
      network_(network),
      params_(params),
      address_("tcp://10.0.0." + std::to_string(params.number + 1) + ":7000"),
      instance_(world.random.next() | 1),
      memory_(std::make_shared<Memory>()) {
    memory_->engine = params.number;
    memory_->incarnation = instance_;
    memory_->bytes.resize(size_t{params.layers} * 2 * kPages * kPageBytes + size_t{kAuxPages} * kAuxBytes);
    auto layout = std::make_shared<Layout>();
    layout->version = 1;
    uint64_t offset = 0;
    const auto add = [&](TensorName name, uint32_t pages, uint32_t bytes) {
        Tensor tensor;
        tensor.name = name;
        tensor.page_count = pages;
        tensor.page_bytes = tensor.page_stride = tensor.unit_bytes = bytes;
        tensor.region_offset = offset;
        offset += uint64_t{pages} * bytes;
        layout->tensors.push_back(tensor);
    };
    for (uint32_t layer = 0; layer < params.layers; ++layer)
        for (uint32_t part = 0; part < 2; ++part)
            add({0, layer, part}, kPages, kPageBytes);
    add({1, 0, KVF_PART_AUX}, kAuxPages, kAuxBytes);
    layout->regions.push_back({memory_->bytes.data(), memory_->bytes.size(), KVF_MEMORY_HOST, 0, -1, 0});
    layout_ = layout;
}

SimEngine::~SimEngine() = default;

uint8_t *SimEngine::page(uint32_t group, uint32_t tensor, uint32_t page) {
    const Tensor &named = layout_->tensors[group == 0 ? tensor : size_t{params_.layers} * 2];
    return memory_->bytes.data() + named.region_offset + page * named.page_stride;
}

void SimEngine::start() {
    fabric_.introduce(instance_, memory_);
    table_ = std::make_unique<RoomTable>(params_.max_rooms, static_cast<uint8_t>(1 + world_.random.below(255)),
                                         params_.shards);
    for (uint32_t i = 0; i < params_.shards; ++i) {
        ShardConfig shard;
        shard.index = i;
        shard.rank = static_cast<int32_t>(params_.number);
        shard.window_ops = params_.window_ops;
        shard.window_bytes = uint64_t{params_.window_ops} * 512;
        shard.batch.segments = 16;
        shard.batch.bytes = 512;
        shard.max_unclaimed = params_.max_unclaimed;
        shard.unclaimed_ns = params_.deadline;
        shard.max_early_ends = 64;
        actors_.emplace_back();
        actors_.back().shard = std::make_unique<Shard>(shard, *table_);
    }
    ControlConfig config;
    config.instance = instance_;
    config.role = params_.role;
    config.name = "engine-" + std::to_string(params_.number);
    config.rank = params_.number;
    config.kv_cache_dtype = "auto";
    config.listen = address_;
    config.shards = params_.shards;
    config.heartbeat_ns = params_.heartbeat;
    control_ = std::make_unique<Control>(config, address_, *this, world_.now());
    network_.listen(address_, shared_from_this());
    on_control([&](Control &control) { (void)control.set_layout(layout_, {}); });
    load("sim");
}

template <typename Call>
void SimEngine::later(uint64_t delay, Call call) {
    world_.after(delay, [self = shared_from_this(), call]() mutable {
        if (self->alive())
            call();
    });
}

void SimEngine::load(const std::string &name) {
    Loaded loaded;
    if (loads(name))
        return;
    Fabric::current = &fabric_;
    const Status opened = Transport::open(name, "", instance_, &loaded.transport);
    if (!opened.ok()) {
        world_.violation("transport %s: %s", name.c_str(), opened.sentence().c_str());
        return;
    }
    kvf_region_params params{};
    params.fd = -1;
    params.base = memory_->bytes.data();
    params.length = memory_->bytes.size();
    kvf_region *region = nullptr;
    (void)loaded.transport->register_region(params, &region);
    loaded.regions.push_back(region);
    loaded_.push_back(loaded);
    const auto tally = std::make_shared<Tally>(
        params_.shards, [this, loaded](const Status &) { later(1, [this, loaded] { finish_load(loaded); }); });
    for (uint32_t i = 0; i < params_.shards; ++i)
        to_shard(i, TransportUp{loaded.transport, tally});
}

bool SimEngine::loads(const std::string &name) const {
    return std::ranges::any_of(loaded_, [&](const Loaded &it) { return it.transport->name() == name; });
}

void SimEngine::finish_load(const Loaded &loaded) {
    on_control([&](Control &control) { (void)control.add_transport(loaded.transport, loaded.regions); });
}

void SimEngine::unload(const std::string &name) {
    on_control([&](Control &control) { control.remove_transport(name); });
    look_at_unload(name);
}

void SimEngine::look_at_unload(const std::string &name) {
    const auto found =
        std::find_if(loaded_.begin(), loaded_.end(), [&](const Loaded &it) { return it.transport->name() == name; });
    if (found == loaded_.end())
        return;
    if (control_->peers_of(name) != 0)
        return later(kMilli, [this, name] { look_at_unload(name); });
    const auto tally = std::make_shared<Tally>(params_.shards, [this, name](const Status &) {
        later(1, [this, name] {
            const auto gone = std::find_if(loaded_.begin(), loaded_.end(),
                                           [&](const Loaded &it) { return it.transport->name() == name; });
            if (gone == loaded_.end())
                return; // it was asked for twice
            for (kvf_region *region : gone->regions)
                gone->transport->deregister_region(region);
            loaded_.erase(gone);
        });
    });
    for (uint32_t i = 0; i < params_.shards; ++i)
        to_shard(i, TransportDown{found->transport, tally});
}

void SimEngine::crash(bool silently) {
    fabric_.crash(instance_);
    network_.crashed(*this, silently);
    finish();
}

void SimEngine::shut_down(uint64_t drain, std::function<void()> done) {
    closing_ = true;
    done_ = std::move(done);
    const Cause cause{KVF_ERR_CLOSED, static_cast<int32_t>(params_.number), "the engine was closed"};
    const auto ended = std::make_shared<bool>(false);
    const auto end = [this, cause, ended] {
        if (*ended)
            return;
        *ended = true;
        on_control([&](Control &control) { control.shutdown(cause); });
        later(kMilli, [this] {
            // With operations left in flight their lanes go, as with the process.
            fabric_.crash(instance_);
            network_.crashed(*this, false);
            finish();
        });
    };
    const auto tally = std::make_shared<Tally>(params_.shards, [this, end](const Status &) { later(1, end); });
    for (uint32_t i = 0; i < params_.shards; ++i)
        to_shard(i, EndAllRooms{cause, tally});
    later(drain, end);
}

void SimEngine::finish() {
    for (Actor &actor : actors_) {
        actor.inbox.clear();
        actor.shard.reset();
    }
    control_inbox_.clear();
    control_.reset();
    for (Loaded &loaded : loaded_)
        for (kvf_region *region : loaded.regions)
            loaded.transport->deregister_region(region);
    loaded_.clear();
    if (done_)
        done_();
}

// ------------------------------------------------------------------------------------------------------------- actors

void SimEngine::to_shard(uint32_t shard, ToShard &&message) {
    actors_[shard].inbox.push_back(std::move(message));
    wake(shard);
}

void SimEngine::wake(uint32_t shard) {
    if (actors_[shard].woken)
        return;
    actors_[shard].woken = true;
    later(1 + world_.random.below(20 * kMicro), [this, shard] { run(shard); });
}

void SimEngine::run(uint32_t shard) {
    Actor &actor = actors_[shard];
    actor.woken = false;
    size_t take = world_.random.between(0, actor.inbox.size());
    for (; take > 0; --take) {
        ToShard message = std::move(actor.inbox.front());
        actor.inbox.pop_front();
        actor.limited -= is_limited(message) ? 1 : 0;
        actor.shard->handle(std::move(message), world_.now());
    }
    const bool more = actor.shard->advance(world_.now());
    flush(actor);
    if (const auto ended = actor.shard->take_ended())
        ended->add({});
    if (more || !actor.inbox.empty())
        wake(shard);
    arm(shard, actor.shard->must_poll() ? world_.now() + 200 * kMicro : actor.shard->next_deadline());
}

void SimEngine::flush(Actor &actor) {
    ShardOutput &output = actor.shard->output();
    for (const uint32_t slot : output.changed)
        changed(*this, slot);
    output.changed.clear();
    for (ToControl &message : output.control)
        control_inbox_.push_back(std::move(message));
    output.control.clear();
    for (const FenceWatch &watch : output.fences)
        if (watch.done.get() < 0)
            fence_awaited(*this, watch.room, watch.fd);
    output.fences.clear();
    if (!control_inbox_.empty() && !control_woken_) {
        control_woken_ = true;
        later(1 + world_.random.below(20 * kMicro), [this] { run_control(); });
    }
}

void SimEngine::arm(uint32_t shard, uint64_t time) {
    Actor &actor = actors_[shard];
    if (time == kNever || (actor.timer <= time && actor.timer > world_.now()))
        return;
    actor.timer = time;
    later(time > world_.now() ? time - world_.now() : 1, [this, shard] { wake(shard); });
}

void SimEngine::fire(RoomHandle room) {
    Actor &actor = actors_[table_->shard(table_->room_id(room))];
    actor.shard->fence_fired(room, world_.now());
    flush(actor);
    wake(table_->shard(table_->room_id(room)));
}

void SimEngine::run_control() {
    control_woken_ = false;
    std::deque<ToControl> inbox;
    inbox.swap(control_inbox_);
    on_control([&](Control &control) {
        for (ToControl &message : inbox)
            control.handle(std::move(message));
    });
}

void SimEngine::on_control(const std::function<void(Control &)> &call) {
    control_->tick(world_.now());
    call(*control_);
    arm_control();
}

void SimEngine::arm_control() {
    const uint64_t due = control_->next_deadline();
    if (due == kNever || (control_timer_ <= due && control_timer_ > world_.now()))
        return;
    control_timer_ = std::max(due, world_.now() + 1);
    later(control_timer_ - world_.now(), [this] { on_control([](Control &) {}); });
}

// --------------------------------------------------------------------------------------------------------------- calls

void SimEngine::push_limited(uint64_t room_id, ToShard &&message) {
    const uint32_t shard = table_->shard(room_id);
    ++actors_[shard].limited;
    to_shard(shard, std::move(message));
}

int SimEngine::open_sender(uint64_t room_id, uint32_t receivers, RoomHandle *room) {
    if (actors_[table_->shard(room_id)].limited >= params_.inbox)
        return KVF_ERR_AGAIN;
    const Status opened = table_->open(RoomRole::kSender, room_id, "", room);
    if (opened.ok())
        push_limited(room_id,
                     OpenSender{*room, room_id, receivers, {params_.deadline, params_.deadline, params_.deadline}});
    return opened.code();
}

int SimEngine::open_receiver(uint64_t room_id, const std::string &prefill, RoomHandle *room) {
    if (actors_[table_->shard(room_id)].limited >= params_.inbox)
        return KVF_ERR_AGAIN;
    const Status opened = table_->open(RoomRole::kReceiver, room_id, prefill, room);
    if (opened.ok())
        push_limited(room_id, OpenReceiver{*room,
                                           room_id,
                                           {prefill, KVF_DP_BY_ROOM, 0},
                                           0,
                                           {params_.deadline, params_.deadline, params_.deadline}});
    return opened.code();
}

int SimEngine::accept(RoomHandle room, std::vector<PageRuns> lists) {
    RoomWord word;
    if (const int code = table_->load(room, &word); code != KVF_OK)
        return code;
    const uint64_t room_id = table_->room_id(room);
    if (actors_[table_->shard(room_id)].limited >= params_.inbox)
        return KVF_ERR_AGAIN;
    if (word.ended() || !table_->claim(room, RoomTable::kAccepted))
        return KVF_ERR_STATE;
    push_limited(room_id, Accept{room, std::move(lists), world_.now()});
    return KVF_OK;
}

int SimEngine::send(RoomHandle room, std::unique_ptr<Chunk> chunk) {
    RoomWord word;
    if (const int code = table_->load(room, &word); code != KVF_OK)
        return code;
    const uint64_t room_id = table_->room_id(room);
    if (actors_[table_->shard(room_id)].limited >= params_.inbox)
        return KVF_ERR_AGAIN;
    if (word.ended())
        return KVF_ERR_STATE;
    chunk->queued_ns = world_.now();
    push_limited(room_id, SendChunk{room, std::move(chunk)});
    return KVF_OK;
}

int SimEngine::abort(RoomHandle room) {
    RoomWord word;
    const int code = table_->load(room, &word);
    if (code == KVF_OK && !word.ended())
        to_shard(table_->shard(table_->room_id(room)), AbortRoom{room, "the scenario"});
    return code;
}

int SimEngine::close(RoomHandle room) {
    RoomWord word;
    if (const int code = table_->load(room, &word); code != KVF_OK)
        return code;
    const uint64_t room_id = table_->room_id(room);
    const int code = table_->retire(room);
    if (code == KVF_OK)
        to_shard(table_->shard(room_id), CloseRoom{room});
    return code;
}

int SimEngine::close_deferred(RoomHandle room) {
    RoomWord word;
    const int code = table_->load(room, &word);
    if (code == KVF_OK && table_->claim(room, RoomTable::kDeferred))
        to_shard(table_->shard(table_->room_id(room)), CloseRoomDeferred{room});
    return code;
}

std::string SimEngine::leftovers() const {
    std::string out;
    if (table_->open_rooms() != 0)
        out += text("%u slots ", table_->open_rooms());
    for (const auto &[gauge, name] :
         {std::pair(ControlCounter::open_seeks, "seeks"), std::pair(ControlCounter::open_settles, "settles")})
        if (const uint64_t count = control_->counters().get(gauge); count != 0)
            out += text("%llu %s ", static_cast<unsigned long long>(count), name);
    for (size_t i = 0; i < actors_.size(); ++i) {
        const ShardCounters &counters = actors_[i].shard->counters();
        if (counters.open_rooms != 0 || counters.open_operations != 0 || counters.open_unclaimed != 0)
            out += text("shard %zu: %llu rooms, %llu operations, %llu unclaimed ", i,
                        static_cast<unsigned long long>(counters.open_rooms.load()),
                        static_cast<unsigned long long>(counters.open_operations.load()),
                        static_cast<unsigned long long>(counters.open_unclaimed.load()));
    }
    return out;
}

// ------------------------------------------------------------------------------------------------------- ControlPort

void SimEngine::dial(uint64_t connection, const std::string &address) {
    network_.dial(shared_from_this(), connection, address);
}

void SimEngine::send(uint64_t connection, std::span<const uint8_t> frame) {
    network_.send(*this, connection, frame);
}

void SimEngine::close(uint64_t connection) {
    network_.close(*this, connection);
}

void SimEngine::ask_topology(uint64_t request, const std::string &) {
    later(1 + world_.random.below(kMilli),
          [this, request] { on_control([&](Control &control) { control.topology_came(request, {}, Topology{}); }); });
}

void SimEngine::ask_rank(uint64_t request, const std::string &server, const RankPlace &) {
    // A server is named for the engine that it knows: "boot-2:80" leads to engine 2.
    const auto number = static_cast<uint32_t>(std::atoi(server.c_str() + sizeof "boot-" - 1));
    later(1 + world_.random.below(kMilli), [this, request, number] {
        on_control([&](Control &control) {
            control.rank_came(request, {}, {"10.0.0." + std::to_string(number + 1), 7000});
        });
    });
}

void SimEngine::ask_dp_rank(uint64_t request, const std::string &, uint64_t) {
    later(1, [this, request] { on_control([&](Control &control) { control.dp_rank_came(request, {}, 0); }); });
}

void SimEngine::register_rank(uint64_t request, const std::string &, const RankRecord &) {
    later(1, [this, request] { on_control([&](Control &control) { control.registered(request, {}); }); });
}

void SimEngine::run_on_control(std::function<void()> fn) {
    later(1 + world_.random.below(20 * kMicro), [this, fn] {
        control_->tick(world_.now());
        fn();
        arm_control();
    });
}

} // namespace kvf::sim
