// One HTTP request on the control thread: resolves, connects, writes, reads, each without blocking, with one deadline
// for all of it.
#pragma once

#include "base/status.h"
#include "control/bootstrap_address.h"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace kvf {

struct HttpReply {
    unsigned status = 0;
    std::string body;
};

struct HttpCall {
    HostPort server;
    const char *method = "GET"; // "GET", "PUT" or "POST"; static
    std::string target;
    std::string body; // JSON, or "" for none
};

class BootstrapRequest {
  public:
    using Done = std::function<void(const Status &, const HttpReply &)>;

    virtual ~BootstrapRequest() = default;

    // The deadline runs from here. done is called once, from the io_context and never from within a call of this
    // class; its status is ok for a reply of any HTTP status.
    static std::shared_ptr<BootstrapRequest> make(boost::asio::io_context *io, HttpCall call,
                                                  std::chrono::milliseconds deadline, Done done);

    // Begins to send; until then only the deadline runs.
    virtual void send() = 0;

    // Ends it with that status, from the io_context.
    virtual void fail_soon(Status status) = 0;

    // done will not be called any more.
    virtual void cancel() = 0;
};

} // namespace kvf
