// A transport's peer and the keys imported from it, ended together. Lives and dies on the control thread.
#pragma once

#include "control/wire_messages.h"
#include "plugin/transport.h"

#include <map>
#include <memory>
#include <string>

namespace kvf {

class PeerHandle {
  public:
    static Status create(const std::shared_ptr<Transport> &transport, const Bytes &address, uint64_t instance,
                         const std::string &name, std::shared_ptr<PeerHandle> *out);

    // Releases the keys and destroys the peer; no lane uses it by then.
    ~PeerHandle();
    PeerHandle(const PeerHandle &) = delete;
    PeerHandle &operator=(const PeerHandle &) = delete;

    const std::shared_ptr<Transport> &transport() const { return transport_; }
    kvf_peer *get() const { return peer_; }

    // A key that was imported before gives the same as then.
    Status import(const Bytes &key, kvf_remote **remote);

  private:
    PeerHandle(std::shared_ptr<Transport> transport, kvf_peer *peer);

    std::shared_ptr<Transport> transport_;
    kvf_peer *peer_;
    std::map<Bytes, kvf_remote *> remotes_;
};

} // namespace kvf
