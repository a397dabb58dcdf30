// One connection of the bootstrap server: reads HTTP requests, has the registry answer them, writes the replies.
#pragma once

#include "control/bootstrap_registry.h"
#include "control/bootstrap_server.h"

#include <boost/asio/ip/tcp.hpp>

#include <memory>

namespace kvf {

// Serves the connection on its executor until the peer closes it, is idle for too long, or breaks HTTP. registry must
// outlive the executor's context. place is let go when the connection is closed.
void serve_bootstrap(boost::asio::ip::tcp::socket socket, BootstrapRegistry *registry, const BootstrapLimits &limits,
                     std::shared_ptr<void> place);

} // namespace kvf
