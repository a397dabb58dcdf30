// Binding the address that peers dial, with plain system calls. The descriptor is close-on-exec and does not block.
#pragma once

#include "base/status.h"

#include <string>

namespace kvf {

class Listener {
  public:
    Listener() = default;
    Listener(Listener &&other) noexcept;
    Listener &operator=(Listener &&other) noexcept;
    // Closes it and removes the socket file.
    ~Listener();

    // "tcp://host:port", where port 0 is any, or "unix:///path". A socket file that nobody listens on is replaced.
    // KVF_ERR_ADDRESS_IN_USE, KVF_ERR_SYSTEM, KVF_ERR_INVALID: also for what other hosts reach when trust_network does
    // not say that they may. Resolves a host name, which may block.
    static Status open(const std::string &address, bool trust_network, Listener *out);

    int fd() const { return fd_; }
    bool is_unix() const { return !path_.empty(); }
    // What is bound, "tcp://0.0.0.0:40123".
    const std::string &bound() const { return bound_; }

    // bound() as peers can dial it: for a host that means every interface, the address that this machine has on the way
    // to `towards` ("host:port", may be empty).
    std::string reachable(const std::string &towards) const;

  private:
    Status open_tcp(const std::string &address, bool trust_network);
    Status open_unix(const std::string &address);

    int fd_ = -1;
    std::string path_; // of a socket file
    std::string bound_;
};

// "127.0.0.1:4000", "[::1]:4000", or "a unix socket".
std::string describe_socket_address(const void *sockaddr);

} // namespace kvf
