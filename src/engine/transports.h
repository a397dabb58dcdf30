// The transports that an engine has loaded: each an instance with a lane on every shard and its handle for every
// region. Changes are made by one caller at a time. A plugin is loaded and opened on that caller's thread; calls into
// its instance are made on the control thread, each on its own, so that peers are answered in between.
#pragma once

#include "control/control_thread.h"
#include "engine/shard_thread.h"
#include "room/layout.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kvf {

class Transports {
  public:
    Transports(uint64_t instance, ControlThread &control, const std::vector<std::unique_ptr<ShardThread>> &shards)
        : instance_(instance), control_(control), shards_(shards) {}
    // The control thread has stopped and the shards are gone.
    ~Transports();
    Transports(const Transports &) = delete;
    Transports &operator=(const Transports &) = delete;

    Status load(const std::string &name, const std::string &options, const std::shared_ptr<const Layout> &layout);
    // It takes no new rooms; then, once peers_of() is 0, it goes. KVF_ERR_NO_TRANSPORT: not loaded.
    Status begin_unload(const std::string &name);
    // Any thread: how many peers still use it.
    size_t peers_of(const std::string &name);
    // KVF_OK also when another caller has ended it meanwhile.
    Status end_unload(const std::string &name);
    // Registers the regions that `next` has more than before with every transport, and gives control the layout.
    Status publish(const std::shared_ptr<const Layout> &next);

  private:
    struct Loaded {
        std::shared_ptr<Transport> transport;
        std::vector<kvf_region *> regions; // by index in the layout
        bool leaving = false;
    };

    // Brings the handles of `loaded` up to `layout`; on failure they are as they were.
    Status register_regions(Loaded *loaded, const Layout &layout);
    // On the control thread, or without one.
    static void deregister_from(Loaded *loaded, size_t first);
    template <typename Message>
    bool ask_shards(const std::shared_ptr<Transport> &transport, uint64_t timeout_ms, Status *result);
    Status close(Loaded *loaded);
    Status on_control(const std::function<Status(Control &)> &call);
    std::vector<Loaded>::iterator find(const std::string &name);

    const uint64_t instance_;
    ControlThread &control_;
    const std::vector<std::unique_ptr<ShardThread>> &shards_;
    std::vector<Loaded> loaded_; // in the order of preference
};

} // namespace kvf
