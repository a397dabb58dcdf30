// The simulated network: connections that deliver bytes in order and late, break, and are held up by partitions; and
// the bootstrap server that everybody reaches.
#pragma once

#include "world.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace kvf::sim {

class SimEngine;
using EngineRef = std::shared_ptr<SimEngine>;

class Network {
  public:
    explicit Network(World &world) : world_(world) {}

    uint64_t most_latency = 100 * kMicro;

    void listen(const std::string &address, const EngineRef &engine) { listening_[address] = engine; }
    void dial(const EngineRef &from, uint64_t connection, const std::string &address);
    void send(SimEngine &from, uint64_t connection, std::span<const uint8_t> bytes);
    // What was sent before arrives, then the other end hears of it.
    void close(SimEngine &from, uint64_t connection);
    // The process is gone: its peers hear of it soon, or, silently, never.
    void crashed(SimEngine &engine, bool silently);

    // Cuts one connection, if there is any: both ends hear of it, sooner or later. What was on its way is lost, or
    // arrives at the end that has not heard of it yet.
    void cut_one();
    // Nothing goes from engine number `from` to `to` (numbers stay across restarts) until healed.
    void partition(uint32_t from, uint32_t to) { partitions_.insert({from, to}); }
    void heal(uint32_t from, uint32_t to);
    void heal_all();

  private:
    struct End {
        EngineRef engine;
        uint64_t connection = 0;
        bool open = false;
        uint64_t last_delivery = 0;            // of what goes to this end
        uint64_t stalled_until = 0;            // what goes to this end is held up until then
        std::deque<std::vector<uint8_t>> held; // by a partition; an empty one is the close
    };
    struct Wire {
        End ends[2];
        bool broken = false; // no new bytes
        bool lossy = false;  // nor those on their way
    };
    using WireRef = std::shared_ptr<Wire>;

    bool held_up(const End &from, const End &to) const;
    WireRef find(const SimEngine &engine, uint64_t connection, int *side);
    void carry(const WireRef &wire, int to, std::vector<uint8_t> bytes);
    void deliver(const WireRef &wire, int to, std::vector<uint8_t> bytes);
    void hang_up(const WireRef &wire, int to);
    void release(const WireRef &wire, int to);
    void flush();
    uint64_t latency() { return 1 + world_.random.below(most_latency); }

    World &world_;
    std::map<std::string, EngineRef> listening_;
    std::vector<WireRef> wires_;
    std::set<std::pair<uint32_t, uint32_t>> partitions_;
};

} // namespace kvf::sim
