// Taking addresses apart and putting them together.
#include "control/bootstrap_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

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

// What is said of an address that is "<scheme>host:port", the scheme left out before.
Status parse(const char *what, std::string_view scheme, std::string_view rest, HostPort *out) {
    const auto refuse = [&](const std::string &why) {
        return Status(KVF_ERR_INVALID, std::string(what) + " '" + std::string(scheme) +
                                           std::string(rest.substr(0, kMaxHost)) + "': " + why);
    };
    const auto expected = [&] { return "expected " + std::string(scheme) + "host:port"; };
    const size_t colon = rest.rfind(':');
    if (colon == std::string_view::npos)
        return refuse(expected());
    std::string_view host = rest.substr(0, colon);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed)
        host = host.substr(1, host.size() - 2);
    const std::string_view digits = rest.substr(colon + 1);
    const char *end = digits.data() + digits.size();
    uint16_t port = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, port);
    if (!is_host(host, bracketed) || error == std::errc::invalid_argument || stop != end)
        return refuse(expected());
    if (error != std::errc())
        return refuse("its port is out of range, which ends at 65535");
    out->host = host;
    out->port = port;
    return {};
}

} // namespace

Status parse_host_port(const char *what, std::string_view address, HostPort *out) {
    return parse(what, "", address, out);
}

Status parse_tcp(const char *what, std::string_view address, HostPort *out) {
    if (!address.starts_with(kTcp))
        return fail(KVF_ERR_INVALID, "%s '%s': expected tcp://host:port", what,
                    std::string(address.substr(0, kMaxHost)).c_str());
    return parse(what, kTcp, address.substr(kTcp.size()), out);
}

Status parse_unix(const char *what, std::string_view address, std::string *path) {
    constexpr size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
    if (!address.starts_with(kUnix) || !address.substr(kUnix.size()).starts_with('/') ||
        address.size() - kUnix.size() > kMost)
        return fail(KVF_ERR_INVALID, "%s '%s': expected unix:// and an absolute path of at most %zu bytes", what,
                    std::string(address.substr(0, kMaxHost)).c_str(), kMost);
    *path = address.substr(kUnix.size());
    return {};
}

Status parse_server(const char *what, std::string_view address, std::string *out) {
    constexpr std::string_view kHttp = "http://";
    std::string_view server = address;
    if (server.starts_with(kHttp))
        server.remove_prefix(kHttp.size());
    while (server.ends_with('/'))
        server.remove_suffix(1);
    HostPort parsed;
    if (Status status = parse_host_port(what, server, &parsed); !status.ok())
        return status;
    if (parsed.port == 0)
        return fail(KVF_ERR_INVALID, "%s '%s': expected a port other than 0", what, std::string(server).c_str());
    *out = server;
    return {};
}

Status parse_prefill(std::string_view address, std::string *out) {
    constexpr const char *kWhat = "prefill";
    Status status;
    if (address.starts_with(kTcp)) {
        HostPort parsed;
        status = parse_tcp(kWhat, address, &parsed);
        if (status.ok() && parsed.port == 0)
            status =
                fail(KVF_ERR_INVALID, "%s '%s': expected a port other than 0", kWhat, std::string(address).c_str());
    } else if (address.starts_with(kUnix)) {
        std::string path;
        status = parse_unix(kWhat, address, &path);
    } else {
        return parse_server(kWhat, address, out);
    }
    if (status.ok())
        *out = address;
    return status;
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
