// An opened instance of a transport, alone ("shm") or with a decorator over it ("fault+shm"). Statuses carry the
// plugin's sentence after the transport's name. Threads: as plugin.h says of calls that are not on lanes.
#pragma once

#include "base/status.h"
#include "plugin/plugin.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvf {

using Blob = std::vector<uint8_t>;

class Transport {
  public:
    // Loads what name says and opens it for the engine instance_id. Of a decorated transport's options those whose key
    // begins with the inner one's name and a dot ("shm.x=1") go to it, without that; the others to the decorator.
    // KVF_ERR_INVALID, KVF_ERR_NO_TRANSPORT, KVF_ERR_UNSUPPORTED (a plugin of another kind), KVF_ERR_PLUGIN_ABI,
    // KVF_ERR_OPTION. May block.
    static Status open(const std::string &name, const std::string &options, uint64_t instance_id,
                       std::shared_ptr<Transport> *out);

    // Closes the instance. Whoever drops it last has destroyed its peers, regions and lanes before.
    ~Transport();
    Transport(const Transport &) = delete;
    Transport &operator=(const Transport &) = delete;

    const std::string &name() const { return name_; }
    uint64_t capabilities() const { return capabilities_; }
    bool can(uint64_t capability) const { return (capabilities_ & capability) == capability; }

    Status address(Blob *blob);

    Status register_region(const kvf_region_params &params, kvf_region **region); // struct_size is filled in here
    void deregister_region(kvf_region *region);
    Status export_key(kvf_region *region, Blob *blob);

    Status peer_create(std::span<const uint8_t> address, uint64_t instance_id, const std::string &name,
                       kvf_peer **peer);
    Status peer_export(kvf_peer *peer, Blob *blob); // empty when the transport has none
    Status peer_connect(kvf_peer *peer, std::span<const uint8_t> blob);
    void peer_destroy(kvf_peer *peer);
    Status import_key(kvf_peer *peer, std::span<const uint8_t> blob, kvf_remote **remote);
    void release_key(kvf_peer *peer, kvf_remote *remote);

    // KVF_ERR_BUSY: not to be had now. KVF_ERR_UNSUPPORTED: not without KVF_CAP_FENCE.
    Status fence(kvf_peer *peer);

    std::vector<kvf_counter> counters(); // any thread

    // The status that a plugin's result stands for, where it is not KVF_OK: what no status can be is a failure of the
    // transport.
    static int code_of(int rc) { return rc < 0 && rc >= -0xffff ? rc : KVF_ERR_TRANSPORT; }

  private:
    friend class Lane;

    Transport() = default;

    Status load(const std::string &name);
    Status open_instance(const std::string &options, uint64_t instance_id);
    // Turns what a plugin returned into a status.
    Status result(int rc) const;
    template <typename Call>
    Status read_blob(Call call, Blob *blob);

    std::string name_;
    std::shared_ptr<const Plugin> plugin_; // the decorator when there is one; outlives the instance
    std::shared_ptr<const Plugin> inner_;
    uint64_t capabilities_ = 0;
    kvf_instance *instance_ = nullptr;
};

} // namespace kvf
