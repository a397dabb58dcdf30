// An opened instance over an inner one, and its peers. Regions, keys and addresses are the inner transport's own and
// pass through as they are; a peer is wrapped, so that lanes see when it was fenced.
#pragma once

#include "counters.h"
#include "options.h"
#include "random.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace fault {

class Instance;
class Lane;

// The inner transport's table, full-size: what it lacks is null.
struct Inner {
    kvf_transport_ops ops;
    uint64_t capabilities;
    kvf_instance *instance;
};

struct Peer {
    Instance *instance;
    kvf_peer *inner;
    uint64_t fences = 0; // asked for so far
    // Written by fence. From when it is first asked for, lanes give the inner transport nothing for this peer any more,
    // whatever the answer was; once it is done they end what they hold of it as cancelled.
    enum class Fence { none, asked, done };
    std::atomic<Fence> fence{Fence::none};

    bool closing() const { return fence.load(std::memory_order_acquire) != Fence::none; }
    bool fenced() const { return fence.load(std::memory_order_acquire) == Fence::done; }
};

class Instance {
  public:
    // Opens the inner one too. KVF_ERR_OPTION, KVF_ERR_INVALID (nothing to stand on), or as the inner open says.
    static int open(const kvf_open_params &params, Instance **out);
    ~Instance();
    Instance(const Instance &) = delete;
    Instance &operator=(const Instance &) = delete;

    const Inner &inner() const { return inner_; }
    const Options &options() const { return options_; }
    Counters &counters() { return counters_; }

    int register_region(const kvf_region_params *params, kvf_region **region);
    int peer_create(const kvf_peer_params *params, Peer **peer);
    int peer_connect(Peer *peer, const void *blob, size_t size);
    void peer_destroy(Peer *peer);
    int import_key(Peer *peer, const void *blob, size_t size, kvf_remote **remote);
    int fence(Peer *peer);
    int list_counters(kvf_counter *counters, size_t capacity);

    // Lanes that are to be woken by a fence.
    void add(Lane *lane);
    void remove(Lane *lane);

  private:
    Instance(const Options &options, const kvf_plugin &inner);

    Options options_;
    Inner inner_{};
    Random random_; // of the calls that are not on lanes
    Counters counters_;
    uint64_t connects_ = 0;
    std::mutex mutex_;
    std::vector<Lane *> lanes_; // guarded by mutex_
};

} // namespace fault
