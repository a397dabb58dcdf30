// The simulated transport behind the real plugin ABI: operations land in pieces, late, out of order, partly, or never,
// as the weather of the run has it. Everything that may still touch memory is known here, and each piece that lands is
// shown to whoever judges it.
#pragma once

#include "world.h"

#include <kvferry/plugin.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kvf::sim {

// What this run's transports are like.
struct Weather {
    uint64_t most_delay = 200 * kMicro; // of an operation that goes well
    double slow = 0;                    // chance of a hundred times that
    double fails = 0;                   // some of it lands, then it fails
    double never = 0;                   // does not end by itself
    double partial = 0;                 // a post takes a part
    double full = 0;                    // a post takes nothing
    uint64_t linger = 2 * kMilli;       // how long pieces may land after their writer died
    bool can_cancel = true;
    bool can_fence = true;
    bool fence_revokes = false; // a fence shuts out a living writer as well
    bool strided = true;
};

// An engine's memory; kept while operations may read it.
struct Memory {
    uint32_t engine = 0;
    uint64_t incarnation = 0;
    std::vector<uint8_t> bytes;
    bool gone = false; // its process is
};

struct Piece {
    std::shared_ptr<Memory> from, to;
    uint64_t from_offset = 0, to_offset = 0, length = 0;
};

class Fabric {
  public:
    Fabric(World &world, const Weather &weather) : world_(world), weather_(weather) {}
    ~Fabric();

    // The memory that the instance of that engine registers; made known before it registers any.
    void introduce(uint64_t instance_id, std::shared_ptr<Memory> memory);
    // The process died: its calls end, its pieces on the way may land for a while.
    void crash(uint64_t instance_id);

    // Told of every piece that lands.
    std::function<void(const Piece &)> landed;
    // Told when a lane has something to poll for: the engine that owns it.
    std::function<void(uint64_t instance_id, uint32_t shard)> ready;

    const Weather &weather() const { return weather_; }
    size_t in_flight() const { return operations_.size(); }

    // The plugin's side; `current` is the fabric of the run.
    struct Instance;
    struct Region;
    struct Peer;
    struct Remote;
    struct Lane;
    struct Operation;
    static Fabric *current;

    Instance *open(const kvf_open_params &params);
    void close(Instance *instance);
    int post(Lane *lane, Peer *peer, const kvf_segment *segments, uint32_t count, uint64_t token, uint32_t *accepted);
    int poll(Lane *lane, kvf_completion *completions, uint32_t capacity);
    int cancel(Lane *lane, uint64_t token);
    int fence(Peer *peer);
    void forget(Peer *peer);
    void close(Lane *lane);

    World &world() { return world_; }
    Instance *find(uint64_t instance_id);
    uint64_t epoch(uint64_t writer, uint64_t target) { return epochs_[{writer, target}]; }

  private:
    void land(const std::shared_ptr<Operation> &operation, size_t piece);
    void complete(const std::shared_ptr<Operation> &operation, int status);
    void drop_operations_of(uint64_t writer, uint64_t target);
    bool any_of(uint64_t writer, uint64_t target) const;

    World &world_;
    const Weather weather_;
    std::map<uint64_t, std::shared_ptr<Memory>> memories_;     // by instance id
    std::multimap<uint64_t, Instance *> instances_;            // open ones, by instance id
    std::vector<std::shared_ptr<Operation>> operations_;       // that may still touch memory
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> epochs_; // by (writer, target): how often it was shut out
};

// What the simulated plugins answer to kvf_plugin_query.
int fabric_query(const kvf_host *host, kvf_plugin *plugin);

} // namespace kvf::sim
