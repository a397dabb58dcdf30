// The bootstrap server: a thread with a listening socket that serves a BootstrapRegistry over HTTP/1.1.
#pragma once

#include "base/status.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace kvf {

// What one peer can cost. They are SGLang's peers' needs with room to spare: a registration is one kilobyte.
struct BootstrapLimits {
    uint32_t header_bytes = 8192;
    uint32_t body_bytes = 1U << 20;
    uint32_t connections = 1024;           // one more is closed at once
    std::chrono::milliseconds idle{30000}; // for a request to come in full, and for a reply to be taken
};

class BootstrapServer {
  public:
    // Listens on "host:port" or "[v6]:port" (port 0: any) and starts the thread; may block to resolve a host name.
    // trust_network: other hosts may reach it. KVF_ERR_INVALID, KVF_ERR_ADDRESS_IN_USE, KVF_ERR_SYSTEM.
    static Status start(const std::string &listen, bool trust_network, uint32_t max_rooms,
                        std::unique_ptr<BootstrapServer> *out, const BootstrapLimits &limits = {});

    // Closes every connection and joins the thread. In a child after fork, where that thread is not, it only closes
    // the child's copy of the listening socket; the server and its connections stay the parent's.
    ~BootstrapServer();
    BootstrapServer(const BootstrapServer &) = delete;
    BootstrapServer &operator=(const BootstrapServer &) = delete;

    // "127.0.0.1:8998", with the port that is really bound.
    const std::string &address() const { return address_; }

    // How often accepting a connection failed, for want of descriptors or the like.
    uint64_t accept_failures() const;

  private:
    class Listener;

    BootstrapServer(std::unique_ptr<Listener> listener, std::string address);

    std::unique_ptr<Listener> listener_;
    std::string address_;
    int pid_;
};

} // namespace kvf
