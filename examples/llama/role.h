// What the prefill and the decode program have in common: their command line, their requests, and an engine of kvferry
// whose tensors are the KV pool and the metadata slots. Both sides must register the same layout, so it stands here
// once.
#pragma once

#include <kvferry/kvferry.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lines.h"
#include "llama.h"
#include "pages.h"
#include "report.h"

namespace llama {

struct RoleOptions {
    std::string model;
    std::string bootstrap; // "host:port" of the bootstrap server
    std::string transport = "shm";
    std::string transport_options;
    uint32_t pages = 1024; // of the KV pool
    uint32_t slots = 64;   // for metadata, one a room
    uint32_t chunk_tokens = 64;
    uint64_t seed = 1; // of the order that pages are given out in
};

// Parses the command line and calls run; prints what fails. Returns the exit status.
int run_role(int argc, char **argv, const char *name, const std::function<void(const RoleOptions &)> &run);

// Fails with kvferry's sentence when status is negative; call names what returned it.
int check(int status, const char *call);

constexpr uint32_t kCacheGroup = 0; // paged keys and values
constexpr uint32_t kSlotGroup = 1;  // metadata, a slot a room

// What decode must know beside the cache. It travels as the one page of a group of its own, with the last chunk.
struct Slot {
    uint64_t room_id;
    uint32_t prompt_tokens; // whose keys and values the pages hold
    Token first_token;      // of the answer, as prefill chose it
    uint64_t digest;        // of the cache, as prefill holds it
    uint8_t unused[40];
};
static_assert(sizeof(Slot) == 64);

// An engine, with the memory that peers write into.
class CacheEngine {
  public:
    // Starts the engine in a role (KVF_ROLE_…), loads its transport, allocates and registers.
    CacheEngine(uint32_t role, const RoleOptions &options, const Config &config);

    kvf_engine *get() const { return engine_.get(); }
    const KvPool &pool() const { return *pool_; }
    Slot &slot(uint32_t index) const { return slots_[index]; }

    // Ends the engine; fails when a transfer was still in flight. Without it the destructor ends it.
    void close();

    // Calls visit for each event that waits; does not block.
    void take_events(const std::function<void(const kvf_event &)> &visit);

    Report report(kvf_room room) const;

  private:
    struct Destroy {
        void operator()(kvf_engine *engine) const;
    };

    void allocate(const RoleOptions &options, const Config &config);
    void register_tensors(const Config &config, uint32_t slots);

    std::unique_ptr<kvf_engine, Destroy> engine_;
    std::optional<KvPool> pool_;
    Slot *slots_ = nullptr;
};

// The lines of the router, on standard input.
class Requests {
  public:
    bool ended() const { return ended_; }

    // Waits for a request, an event of the engine or the timeout (-1: none), whichever comes first.
    void wait(kvf_engine *engine, int timeout_ms);

    // Takes the next request that has come. Fails when the router is gone without an "end".
    std::optional<std::string> next();

  private:
    LineReader reader_{0};
    bool ended_ = false; // "end" was said
    bool closed_ = false;
};

// Tells the router a line.
void tell(const std::string &line);

} // namespace llama
