// An engine: the room table, its shards and its control thread, its transports and its registered memory, and the calls
// that callers make on them. What decides about rooms is in room/ and control/; this puts the parts together.
#pragma once

#include "control/control_thread.h"
#include "engine/event_queue.h"
#include "engine/memory_pools.h"
#include "engine/registrations.h"
#include "engine/shard_thread.h"
#include "engine/transports.h"
#include "room/room_table.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace kvf {

class Engine {
  public:
    static Status create(const kvf_engine_config &config, std::unique_ptr<Engine> *out);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    // KVF_ERR_BUSY: rooms were not quiesced within drain_ms. Everything is ended either way.
    Status shut_down(uint32_t drain_ms);

    // In a child after fork: closes the child's copies of what peers could mistake for the engine, which stays the
    // parent's. Nothing else may be called after it, nor the destructor.
    void forget_in_child() { control_->forget_in_child(); }

    const std::string &address() const { return control_->address(); }
    Status register_tensors(std::span<const kvf_tensor> tensors);
    Status load_transport(const std::string &name, const std::string &options);
    Status unload_transport(const std::string &name, uint32_t drain_ms);
    Status allocate(size_t bytes, void **memory) { return pools_.allocate(bytes, memory); }
    Status release(void *memory);

    Status open_sender(uint64_t room_id, const kvf_sender_options &options, RoomHandle *room);
    Status open_receiver(uint64_t room_id, const std::string &prefill, const kvf_receiver_options &options,
                         RoomHandle *room);
    Status accept(RoomHandle room, std::vector<PageRuns> lists);
    Status send(RoomHandle room, std::unique_ptr<Chunk> chunk);
    Status abort(RoomHandle room, std::string reason);
    Status close(RoomHandle room);
    Status close_deferred(RoomHandle room);
    Status wait(RoomHandle room, uint32_t timeout_ms, RoomWord *word);
    int events(kvf_event *events, size_t capacity, size_t stride, uint32_t timeout_ms);

    RoomTable &rooms() { return *rooms_; }
    const GroupLimits *limits() const { return registrations_.limits(); }
    int event_descriptor() const { return events_->descriptor(); }
    std::vector<kvf_counter> counters() const;

  private:
    Engine() = default;

    Status start(const kvf_engine_config &config);
    Status start_shards(const kvf_engine_config &config);
    Status start_control(const kvf_engine_config &config);
    ShardThread &shard_for(uint64_t room_id) { return *shards_[rooms_->shard(room_id)]; }
    // The room as a caller may use it now, or why not.
    Status look_up(RoomHandle room, RoomWord *word) const;
    Status look_up_open(RoomHandle room, RoomRole role, const char *what) const;
    RoomDeadlines deadlines(uint32_t bootstrap_ms, uint64_t bootstrap_default, uint32_t waiting_ms,
                            uint32_t transfer_ms) const;

    uint64_t instance_ = 0;
    uint32_t role_ = 0;
    int32_t rank_ = 0;
    uint64_t bootstrap_ms_ = 0, waiting_ms_ = 0, transfer_ms_ = 0;
    uint64_t max_unclaimed_ = 0, heartbeat_ms_ = 0, inbox_ = 0;

    // In the order in which they may be destroyed from the end: shards hold links, which the control thread releases.
    MemoryPools pools_;
    std::mutex setup_; // of registrations and transports: one change at a time; not held while an unload waits
    Registrations registrations_{pools_};
    std::unique_ptr<RoomTable> rooms_;
    std::unique_ptr<EventQueue> events_;
    std::unique_ptr<ControlThread> control_;
    std::vector<std::unique_ptr<ShardThread>> shards_;
    std::unique_ptr<Transports> transports_;
    bool ended_ = false;
};

} // namespace kvf
