// One run of an engine in the simulated world: the real room table, shards and control, each an actor that handles what
// lies in its inbox some time after it came. A restart is a new one of these at the same address.
#pragma once

#include "control/control.h"
#include "engine/registrations.h"
#include "network.h"
#include "room/shard.h"
#include "transport.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace kvf::sim {

constexpr uint32_t kPageBytes = 32;
constexpr uint32_t kAuxBytes = 16;
constexpr uint32_t kPages = 256;
constexpr uint32_t kAuxPages = 64;

struct EngineParams {
    uint32_t number = 0;
    uint32_t role = KVF_ROLE_BOTH;
    uint32_t shards = 1;
    uint32_t layers = 2;
    uint32_t max_rooms = 64;
    uint32_t inbox = 64;
    uint32_t window_ops = 8;
    size_t max_unclaimed = 64;
    uint64_t deadline = 2 * kSecond; // of every phase
    uint64_t heartbeat = 200 * kMilli;
};

class SimEngine final : public ControlPort, public std::enable_shared_from_this<SimEngine> {
  public:
    SimEngine(World &world, Fabric &fabric, Network &network, const EngineParams &params);
    ~SimEngine() override;

    void start();
    // The process ends, as by kill -9 (silently: as by a loss of power).
    void crash(bool silently);
    // As kvf_engine_destroy; `done` when it is over.
    void shut_down(uint64_t drain, std::function<void()> done);
    bool alive() const { return control_ != nullptr; }
    bool closing() const { return closing_; }

    uint32_t number() const { return params_.number; }
    uint64_t instance() const { return instance_; }
    const std::string &address() const { return address_; }
    const EngineParams &params() const { return params_; }
    RoomTable &table() { return *table_; }
    Memory &memory() { return *memory_; }
    uint8_t *page(uint32_t group, uint32_t tensor, uint32_t page);
    uint32_t tensors(uint32_t group) const { return group == 0 ? params_.layers * 2 : 1; }

    // The API's calls.
    int open_sender(uint64_t room_id, uint32_t receivers, RoomHandle *room);
    int open_receiver(uint64_t room_id, const std::string &prefill, RoomHandle *room);
    int accept(RoomHandle room, std::vector<PageRuns> lists);
    int send(RoomHandle room, std::unique_ptr<Chunk> chunk);
    int abort(RoomHandle room);
    int close(RoomHandle room);
    int close_deferred(RoomHandle room);

    void load(const std::string &transport);
    void unload(const std::string &transport);
    bool loads(const std::string &transport) const;

    // The word of a room in this slot was written.
    std::function<void(SimEngine &, uint32_t slot)> changed;
    // A chunk's fence is awaited; fire() it.
    std::function<void(SimEngine &, RoomHandle, int fd)> fence_awaited;
    void fire(RoomHandle room);

    // What is left in the tables, for the end of a run.
    std::string leftovers() const;

    void on_control(const std::function<void(Control &)> &call);
    void lane_ready(uint32_t shard) { wake(shard); }

    // ControlPort
    void dial(uint64_t connection, const std::string &address) override;
    void send(uint64_t connection, std::span<const uint8_t> frame) override;
    void close(uint64_t connection) override;
    void to_shard(uint32_t shard, ToShard &&message) override;
    void ask_topology(uint64_t request, const std::string &server) override;
    void ask_rank(uint64_t request, const std::string &server, const RankPlace &place) override;
    void ask_dp_rank(uint64_t request, const std::string &server, uint64_t room_id) override;
    void register_rank(uint64_t request, const std::string &server, const RankRecord &record) override;
    void run_on_control(std::function<void()> fn) override;

  private:
    struct Actor {
        std::unique_ptr<Shard> shard;
        std::deque<ToShard> inbox;
        uint32_t limited = 0; // of the inbox, calls of callers
        bool woken = false;
        uint64_t timer = kNever;
    };
    struct Loaded {
        std::shared_ptr<Transport> transport;
        std::vector<kvf_region *> regions;
    };

    void wake(uint32_t shard);
    void run(uint32_t shard);
    void flush(Actor &actor);
    void arm(uint32_t shard, uint64_t time);
    void run_control();
    void arm_control();
    bool room_in_inbox(uint64_t room_id) const;
    void push_limited(uint64_t room_id, ToShard &&message);
    void finish_load(const Loaded &loaded);
    void look_at_unload(const std::string &name);
    void finish();
    template <typename Call>
    void later(uint64_t delay, Call call);

    World &world_;
    Fabric &fabric_;
    Network &network_;
    const EngineParams params_;
    const std::string address_;
    uint64_t instance_;
    std::shared_ptr<Memory> memory_;
    std::shared_ptr<const Layout> layout_;
    std::unique_ptr<RoomTable> table_;
    std::vector<Actor> actors_;
    std::unique_ptr<Control> control_;
    std::deque<ToControl> control_inbox_;
    bool control_woken_ = false;
    uint64_t control_timer_ = kNever;
    std::vector<Loaded> loaded_;
    bool closing_ = false;
    std::function<void()> done_;
};

} // namespace kvf::sim
