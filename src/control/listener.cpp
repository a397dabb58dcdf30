#include "control/listener.h"

#include "control/bootstrap_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kvf {
namespace {

constexpr int kBacklog = 1024;

struct AddressList {
    addrinfo *first = nullptr;
    ~AddressList() {
        if (first != nullptr)
            freeaddrinfo(first);
    }
};

int resolve(const HostPort &address, int socket_type, int flags, AddressList *out) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = socket_type;
    hints.ai_flags = flags | AI_NUMERICSERV;
    return getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &out->first);
}

Status bind_failed(const std::string &address, int error) {
    if (error == EADDRINUSE)
        return fail(KVF_ERR_ADDRESS_IN_USE, "%s is in use", address.c_str());
    if (error == EADDRNOTAVAIL)
        return fail(KVF_ERR_INVALID, "%s is no address of this machine", address.c_str());
    return fail_system(error, "listening on " + address);
}

// A socket file that nobody listens on. Who listens and has no room for one more (EAGAIN) is there.
bool is_stale(const sockaddr_un &name) {
    struct stat file {};
    if (lstat(name.sun_path, &file) != 0 || !S_ISSOCK(file.st_mode))
        return false;
    const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return false;
    const int rc = connect(probe, reinterpret_cast<const sockaddr *>(&name), sizeof name);
    const int error = errno;
    close(probe);
    return rc != 0 && error == ECONNREFUSED;
}

std::string bound_name(int fd) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    getsockname(fd, reinterpret_cast<sockaddr *>(&name), &size);
    return std::string(kTcp) + describe_socket_address(&name);
}

// The source address of packets to there, without sending one; "" when there is none.
std::string source_towards(const HostPort &there) {
    AddressList list;
    if (resolve(there, SOCK_DGRAM, 0, &list) != 0)
        return "";
    std::string out;
    for (const addrinfo *it = list.first; it != nullptr && out.empty(); it = it->ai_next) {
        const int fd = socket(it->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        sockaddr_storage name{};
        socklen_t size = sizeof name;
        if (connect(fd, it->ai_addr, it->ai_addrlen) == 0 &&
            getsockname(fd, reinterpret_cast<sockaddr *>(&name), &size) == 0) {
            HostPort source;
            if (parse_host_port("source", describe_socket_address(&name), &source).ok())
                out = source.host;
        }
        close(fd);
    }
    return out;
}

} // namespace

std::string describe_socket_address(const void *sockaddr) {
    char host[INET6_ADDRSTRLEN] = "";
    const auto *any = static_cast<const struct sockaddr *>(sockaddr);
    if (any->sa_family == AF_INET) {
        const auto *v4 = static_cast<const sockaddr_in *>(sockaddr);
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        return format_host_port({host, ntohs(v4->sin_port)});
    }
    if (any->sa_family == AF_INET6) {
        const auto *v6 = static_cast<const sockaddr_in6 *>(sockaddr);
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        return format_host_port({host, ntohs(v6->sin6_port)});
    }
    return "a unix socket";
}

Listener::Listener(Listener &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::exchange(other.path_, {})),
      bound_(std::exchange(other.bound_, {})) {}

Listener &Listener::operator=(Listener &&other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    std::swap(bound_, other.bound_);
    return *this;
}

Listener::~Listener() {
    if (!path_.empty())
        unlink(path_.c_str());
    if (fd_ >= 0)
        close(fd_);
}

Status Listener::open(const std::string &address, bool trust_network, Listener *out) {
    Listener made;
    Status status;
    if (address.starts_with(kTcp))
        status = made.open_tcp(address, trust_network);
    else if (address.starts_with(kUnix))
        status = made.open_unix(address);
    else
        status =
            fail(KVF_ERR_INVALID, "listen address '%s': expected tcp://host:port or unix:///path", address.c_str());
    if (status.ok())
        *out = std::move(made);
    return status;
}

Status Listener::open_tcp(const std::string &address, bool trust_network) {
    HostPort host_port;
    if (Status status = parse_tcp("listen address", address, &host_port); !status.ok())
        return status;
    AddressList list;
    if (const int rc = resolve(host_port, SOCK_STREAM, AI_PASSIVE, &list); rc != 0)
        return fail(KVF_ERR_INVALID, "listen address '%s': %s", address.c_str(), gai_strerror(rc));
    const addrinfo &first = *list.first;
    HostPort own;
    const bool known = parse_host_port("listen address", describe_socket_address(first.ai_addr), &own).ok();
    if (!trust_network && (!known || !is_loopback(own.host)))
        return fail(KVF_ERR_INVALID,
                    "listen address '%s' is open to other hosts, and peers prove nothing of themselves: set "
                    "KVF_TRUST_NETWORK=1 where only trusted hosts reach it, or listen on 127.0.0.1",
                    address.c_str());
    fd_ = socket(first.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0)
        return fail_system(errno, "a socket for " + address);
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd_, first.ai_addr, first.ai_addrlen) != 0 || listen(fd_, kBacklog) != 0)
        return bind_failed(address, errno);
    bound_ = bound_name(fd_);
    return {};
}

Status Listener::open_unix(const std::string &address) {
    std::string path;
    if (Status status = parse_unix("listen address", address, &path); !status.ok())
        return status;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, path.c_str(), path.size());
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0)
        return fail_system(errno, "a socket for " + address);
    fchmod(fd_, 0600); // the mode of the file to come: this user's processes only
    const auto *any = reinterpret_cast<const sockaddr *>(&name);
    int rc = bind(fd_, any, sizeof name);
    if (rc != 0 && errno != EADDRINUSE)
        return bind_failed(address, errno);
    if (rc != 0 && is_stale(name)) {
        unlink(name.sun_path);
        rc = bind(fd_, any, sizeof name);
    }
    if (rc != 0)
        return bind_failed(address, EADDRINUSE);
    path_ = path;
    if (listen(fd_, kBacklog) != 0)
        return bind_failed(address, errno);
    bound_ = address;
    return {};
}

std::string Listener::reachable(const std::string &towards) const {
    HostPort own;
    if (is_unix() || !parse_tcp("bound", bound_, &own).ok() || (own.host != "0.0.0.0" && own.host != "::"))
        return bound_;
    // Any address beyond this machine shows the way out; this one is for documentation and never in use.
    HostPort there{own.host == "::" ? "2001:db8::1" : "192.0.2.1", 9};
    HostPort given;
    if (!towards.empty() && parse_host_port("bootstrap", towards, &given).ok() && given.port != 0)
        there = given;
    const std::string source = source_towards(there);
    own.host = !source.empty() ? source : (own.host == "::" ? "::1" : "127.0.0.1");
    return std::string(kTcp) + format_host_port(own);
}

} // namespace kvf
