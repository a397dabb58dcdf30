// Addresses as people write them: "host:port" of a bootstrap server, "tcp://host:port" and "unix:///path" of an engine,
// and what a receiver's caller may name, which is either.
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

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kUnix = "unix://";

// Takes "host:port" or "[v6]:port" apart. KVF_ERR_INVALID: "<what> '<address>': expected host:port", or that the port
// is out of range.
Status parse_host_port(const char *what, std::string_view address, HostPort *out);

// The same for "tcp://host:port".
Status parse_tcp(const char *what, std::string_view address, HostPort *out);

// The path of "unix:///path", which a socket's name can hold.
Status parse_unix(const char *what, std::string_view address, std::string *path);

// The "host:port" of a bootstrap server to ask; "http://" may stand before it and slashes behind it.
Status parse_server(const char *what, std::string_view address, std::string *out);

// What a receiver's caller names: the "host:port" of a bootstrap server as above, or a control address, as it is.
Status parse_prefill(std::string_view address, std::string *out);

// Whether that host is this one: a loopback address, or "localhost".
bool is_loopback(const std::string &host);

// The reverse: an address with colons gets its brackets.
std::string format_host_port(const HostPort &address);

} // namespace kvf
