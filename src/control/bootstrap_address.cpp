// Taking "host:port" apart and putting it together.
#include "control/bootstrap_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>

namespace kvf {
namespace {

// The longest host name of DNS.
constexpr size_t kMaxHost = 255;

bool is_host(std::string_view host, bool bracketed) {
    if (host.empty() || host.size() > kMaxHost)
        return false;
    for (const char c : host) {
        if (c <= ' ' || c == '\x7f' || c == '/' || c == '[' || c == ']' || c == '@' || (c == ':' && !bracketed))
            return false;
    }
    return true;
}

bool is_port(std::string_view digits, uint16_t *port) {
    const char *end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, *port);
    return error == std::errc() && stop == end;
}

} // namespace

Status parse_host_port(const char *what, std::string_view address, HostPort *out) {
    const size_t colon = address.rfind(':');
    if (colon != std::string_view::npos) {
        std::string_view host = address.substr(0, colon);
        const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
        if (bracketed)
            host = host.substr(1, host.size() - 2);
        uint16_t port = 0;
        if (is_host(host, bracketed) && is_port(address.substr(colon + 1), &port)) {
            out->host = host;
            out->port = port;
            return {};
        }
    }
    const std::string shown(address.substr(0, kMaxHost));
    return fail(KVF_ERR_INVALID, "%s '%s': expected host:port", what, shown.c_str());
}

bool is_loopback(const std::string &host) {
    in_addr v4{};
    in6_addr v6{};
    if (inet_pton(AF_INET, host.c_str(), &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, host.c_str(), &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
    return host == "localhost";
}

std::string format_host_port(const HostPort &address) {
    const bool brackets = address.host.find(':') != std::string::npos;
    return (brackets ? '[' + address.host + ']' : address.host) + ':' + std::to_string(address.port);
}

} // namespace kvf
