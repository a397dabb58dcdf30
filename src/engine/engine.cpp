#include "engine/engine.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "control/bootstrap_address.h"
#include "control/control.h"
#include "plugin/search.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <thread>

namespace kvf {
namespace {

constexpr std::chrono::milliseconds kLook(2);

// Engines of a process get tags in turn, so that the handle of one is not taken for another's.
uint8_t next_tag() {
    static std::atomic<uint8_t> tags{0};
    uint8_t tag = 0;
    while (tag == 0)
        tag = tags.fetch_add(1, std::memory_order_relaxed);
    return tag;
}

Status random_instance(uint64_t *instance) {
    do {
        if (getrandom(instance, sizeof *instance, 0) != sizeof *instance)
            return fail_system(errno, "getrandom");
    } while (*instance == 0);
    return {};
}

// The value of the struct, else of the environment or the table.
Status setting(uint64_t given, const char *called, ConfigKey key, uint64_t *out) {
    *out = given;
    return given != 0 ? config_within(key, given, called) : config_u64(key, out);
}

} // namespace

Status Engine::create(const kvf_engine_config &config, std::unique_ptr<Engine> *out) {
    std::unique_ptr<Engine> engine(new Engine());
    Status started = engine->start(config);
    if (started.ok())
        *out = std::move(engine);
    return started;
}

Engine::~Engine() {
    (void)shut_down(0);
}

Status Engine::start(const kvf_engine_config &config) {
    if (config.role < KVF_ROLE_PREFILL || config.role > KVF_ROLE_BOTH)
        return fail(KVF_ERR_INVALID,
                    "role is %u; expected KVF_ROLE_PREFILL (1), KVF_ROLE_DECODE (2) or KVF_ROLE_BOTH (3)", config.role);
    role_ = config.role;
    rank_ = static_cast<int32_t>(config.rank);
    Status checked = config_check();
    if (!checked.ok())
        return checked;
    config_warn_unread(plugin_names());

    Status status = random_instance(&instance_);
    if (status.ok())
        status = start_shards(config);
    if (status.ok())
        status = start_control(config);
    return status;
}

Status Engine::start_shards(const kvf_engine_config &config) {
    uint64_t shards = 0;
    uint64_t max_rooms = 0;
    uint64_t window_ops = 0;
    uint64_t window_bytes = 0;
    const struct {
        uint64_t given;
        const char *called;
        ConfigKey key;
        uint64_t *out;
    } settings[] = {
        {config.shards, "shards", ConfigKey::shards, &shards},
        {config.max_rooms, "max_rooms", ConfigKey::max_rooms, &max_rooms},
        {config.inbox, "inbox", ConfigKey::inbox, &inbox_},
        {config.window_ops, "window_ops", ConfigKey::window_ops, &window_ops},
        {config.window_bytes, "window_bytes", ConfigKey::window_bytes, &window_bytes},
        {config.bootstrap_ms, "bootstrap_ms", ConfigKey::bootstrap_ms, &bootstrap_ms_},
        {config.waiting_ms, "waiting_ms", ConfigKey::waiting_ms, &waiting_ms_},
        {config.transfer_ms, "transfer_ms", ConfigKey::transfer_ms, &transfer_ms_},
        {config.heartbeat_ms, "heartbeat_ms", ConfigKey::heartbeat_ms, &heartbeat_ms_},
        {config.max_unclaimed, "max_unclaimed", ConfigKey::max_unclaimed, &max_unclaimed_},
    };
    for (const auto &entry : settings) {
        Status got = setting(entry.given, entry.called, entry.key, entry.out);
        if (!got.ok())
            return got;
    }

    rooms_ = std::make_unique<RoomTable>(static_cast<uint32_t>(max_rooms), next_tag(), static_cast<uint32_t>(shards),
                                         static_cast<uint32_t>(mix(instance_)));
    Status status = EventQueue::create(static_cast<uint32_t>(max_rooms), &events_);
    for (uint32_t i = 0; status.ok() && i < shards; ++i) {
        ShardConfig shard;
        shard.index = i;
        shard.rank = rank_;
        shard.window_ops = static_cast<uint32_t>(window_ops);
        shard.window_bytes = window_bytes;
        shard.max_unclaimed = std::max<size_t>(1, max_unclaimed_ / shards);
        // Less than the same engine's rooms wait, so that a receiver with the same deadline hears of it before.
        shard.unclaimed_ns = waiting_ms_ * kNanosPerMilli / 10 * 9;
        shards_.emplace_back();
        status = ShardThread::create(
            shard, static_cast<uint32_t>(inbox_), *rooms_, *events_,
            [this](ToControl &&message) { control_->push(std::move(message)); }, &shards_.back());
    }
    return status;
}

Status Engine::start_control(const kvf_engine_config &config) {
    ControlConfig control;
    control.instance = instance_;
    control.role = config.role;
    control.name = config.name ? config.name : "engine";
    control.rank = config.rank;
    control.tp_rank = config.tp_rank;
    control.tp_size = std::max(config.tp_size, 1u);
    control.pp_rank = config.pp_rank;
    control.pp_size = std::max(config.pp_size, 1u);
    control.dp_rank = config.dp_rank;
    control.dp_size = std::max(config.dp_size, 1u);
    control.page_tokens = config.page_tokens;
    control.kv_cache_dtype = config.kv_cache_dtype ? config.kv_cache_dtype : "auto";
    control.shards = static_cast<uint32_t>(shards_.size());
    control.heartbeat_ns = heartbeat_ms_ * kNanosPerMilli;
    const struct {
        const char *name;
        uint32_t rank, size;
    } ranks[] = {{"tp", control.tp_rank, control.tp_size},
                 {"pp", control.pp_rank, control.pp_size},
                 {"dp", control.dp_rank, control.dp_size}};
    if (config.bootstrap && *config.bootstrap != '\0') {
        Status parsed = parse_server("bootstrap", config.bootstrap, &control.bootstrap);
        if (!parsed.ok())
            return parsed;
    }
    for (const auto &rank : ranks)
        if (rank.rank >= rank.size)
            return fail(KVF_ERR_INVALID, "%s_rank is %u; expected below %s_size, which is %u", rank.name, rank.rank,
                        rank.name, rank.size);
    if ((config.role & KVF_ROLE_PREFILL) != 0) {
        control.listen = config.listen ? config.listen : "";
        if (control.listen.empty()) {
            Status listen = config_string(ConfigKey::listen, &control.listen);
            if (!listen.ok())
                return listen;
        }
        uint64_t trusted = 0;
        if (Status status = config_u64(ConfigKey::trust_network, &trusted); !status.ok())
            return status;
        control.trust_network = trusted != 0;
    }
    Status status = ControlThread::start(
        control, [this](uint32_t shard, ToShard &&message) { shards_[shard]->push(std::move(message)); }, &control_);
    if (!status.ok())
        return status;
    transports_ = std::make_unique<Transports>(instance_, *control_, shards_);
    for (const auto &shard : shards_)
        shard->start();
    return {};
}

Status Engine::shut_down(uint32_t drain_ms) {
    if (ended_)
        return {};
    ended_ = true;
    Status result;
    if (control_) {
        const auto answer = std::make_shared<std::promise<void>>();
        std::future<void> ended = answer->get_future();
        const auto tally = std::make_shared<Tally>(static_cast<uint32_t>(shards_.size()),
                                                   [answer](const Status &) { answer->set_value(); });
        for (const auto &shard : shards_)
            shard->push(EndAllRooms{{KVF_ERR_CLOSED, rank_, "the engine was closed"}, tally});
        ended.wait_for(std::chrono::milliseconds(drain_ms));
        control_->call([&](Control &control) { control.shutdown({KVF_ERR_CLOSED, rank_, "the engine was closed"}); });
        control_->stop();
        // They handle what control said last: that links are lost, and that fences hold.
        for (const auto &shard : shards_)
            shard->stop();
        if (const uint32_t left = rooms_->unquiesced(); left != 0)
            result = fail(KVF_ERR_BUSY, "%u rooms were not quiesced within %u ms", left, drain_ms);
    }
    shards_.clear();
    transports_.reset();
    control_.reset();
    return result;
}

Status Engine::register_tensors(std::span<const kvf_tensor> tensors) {
    const std::lock_guard lock(setup_);
    std::shared_ptr<const Layout> next;
    Status status = registrations_.add(tensors, &next);
    if (status.ok())
        status = transports_->publish(next);
    if (status.ok())
        registrations_.adopt(std::move(next));
    return status;
}

Status Engine::load_transport(const std::string &name, const std::string &options) {
    const std::lock_guard lock(setup_);
    return transports_->load(name, options, registrations_.layout());
}

// Others may register and load while it waits.
Status Engine::unload_transport(const std::string &name, uint32_t drain_ms) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(drain_ms);
    {
        const std::lock_guard lock(setup_);
        Status leaving = transports_->begin_unload(name);
        if (!leaving.ok())
            return leaving;
    }
    // Its peers go once no room holds them. That is seldom worth a notice of its own: look now and then.
    for (size_t peers = 0; (peers = transports_->peers_of(name)) != 0; std::this_thread::sleep_for(kLook))
        if (std::chrono::steady_clock::now() >= until)
            return fail(KVF_ERR_BUSY, "%zu peers still use the transport %s after %u ms; it takes no new rooms", peers,
                        name.c_str(), drain_ms);
    const std::lock_guard lock(setup_);
    return transports_->end_unload(name);
}

Status Engine::release(void *memory) {
    if (!memory)
        return {};
    const std::lock_guard lock(setup_);
    const auto pool = pools_.find(memory, 1);
    if (pool && registrations_.uses(pool->base, pool->length))
        return fail(KVF_ERR_BUSY, "a registered tensor lies in the memory at %p", memory);
    return pools_.release(memory);
}

std::vector<kvf_counter> Engine::counters() const {
    std::vector<kvf_counter> out;
    const auto sum = [&](const char *name, std::atomic<uint64_t> ShardCounters::*member) {
        uint64_t total = 0;
        for (const auto &shard : shards_)
            total += (shard->counters().*member).load(std::memory_order_relaxed);
        out.push_back({name, total});
    };
    sum("rooms_opened", &ShardCounters::rooms_opened);
    sum("rooms_succeeded", &ShardCounters::rooms_succeeded);
    sum("rooms_failed", &ShardCounters::rooms_failed);
    sum("late_messages", &ShardCounters::late_messages);
    sum("unclaimed_dropped", &ShardCounters::unclaimed_dropped);
    sum("stray_completions", &ShardCounters::stray_completions);
    sum("lane_failures", &ShardCounters::lane_failures);
    sum("operations", &ShardCounters::operations);
    sum("segments", &ShardCounters::segments);
    sum("bytes", &ShardCounters::bytes);
    sum("open_rooms", &ShardCounters::open_rooms);
    sum("open_unclaimed", &ShardCounters::open_unclaimed);
    sum("open_operations", &ShardCounters::open_operations);
    out.push_back({"open_handles", rooms_->open_rooms()});
    control_->for_each_counter([&](const char *name, uint64_t value) { out.push_back({name, value}); });
    return out;
}

} // namespace kvf
