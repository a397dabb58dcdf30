// "host:port" as the bootstrap server listens on it and its clients dial it.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace kvf {

struct HostPort {
    std::string host; // without the brackets of an IPv6 address
    uint16_t port = 0;
};

// Takes "host:port" or "[v6]:port" apart. KVF_ERR_INVALID: "<what> '<address>': expected host:port".
Status parse_host_port(const char *what, std::string_view address, HostPort *out);

// Whether that host is this one: a loopback address, or "localhost".
bool is_loopback(const std::string &host);

// The reverse: an address with colons gets its brackets.
std::string format_host_port(const HostPort &address);

} // namespace kvf
