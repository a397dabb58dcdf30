// The loop's connections: accepting them, and dialing peers by their addresses.
#include "control/control_loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/bootstrap_address.h"

#include <boost/asio/ip/tcp.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace kvf {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr int kAcceptBatch = 32; // connections accepted before those that are there get a turn

// Small messages must not wait for each other. Fails harmlessly on a Unix socket.
void no_delay(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

} // namespace

struct ControlThread::Loop::Dialing {
    Dialing(boost::asio::io_context &io, uint64_t connection) : connection(connection), resolver(io), patience(io) {}

    void cancel() {
        boost::system::error_code ignored;
        resolver.cancel();
        patience.cancel();
        if (stream)
            stream->close(ignored);
    }

    const uint64_t connection;
    boost::asio::ip::tcp::resolver resolver;
    std::vector<Endpoint> endpoints;
    size_t next = 0;
    boost::asio::steady_timer patience; // with the one that is tried, where there are others
    Status last;                        // why the one before was not reached
    std::unique_ptr<Socket::Stream> stream;
};

// ---------------------------------------------------------------------------------------------------------- accepting

// Once a turn: whatever went wrong in an earlier one, peers are waited for.
void ControlThread::Loop::wait_for_peers() {
    if (accepting_ || !acceptor_.is_open())
        return;
    acceptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](const auto &error) {
        accepting_ = false;
        if (!error && acceptor_.is_open())
            accept_some();
    });
    accepting_ = true;
}

void ControlThread::Loop::accept_some() {
    for (int i = 0; i < kAcceptBatch; ++i) {
        sockaddr_storage name{};
        socklen_t size = sizeof name;
        const int fd =
            accept4(listener_.fd(), reinterpret_cast<sockaddr *>(&name), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accept(fd, &name);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        // No descriptors, or no memory: the peers that wait would wake us again at once.
        log(KVF_LOG_WARN, "accepting peers: %s", fail_system(errno, "accept").sentence().c_str());
        accept_pause_.expires_after(kAcceptPause);
        accept_pause_.async_wait([this](const auto &) { accepting_ = false; });
        accepting_ = true;
        return;
    }
}

void ControlThread::Loop::accept(int fd, const void *sockaddr) {
    const auto *any = static_cast<const struct sockaddr *>(sockaddr);
    const int family = listener_.is_unix() ? AF_UNIX : any->sa_family;
    Socket::Stream stream(io_);
    boost::system::error_code error;
    stream.assign({family, 0}, fd, error);
    if (error) {
        ::close(fd);
        return;
    }
    no_delay(fd);
    control_.tick(monotonic_ns());
    const std::string from = listener_.is_unix() ? "a unix socket" : "tcp://" + describe_socket_address(sockaddr);
    if (const uint64_t id = control_.accepted(from); id != 0)
        adopt(std::move(stream), id);
}

// ------------------------------------------------------------------------------------------------------------ dialing

void ControlThread::Loop::dial(uint64_t connection, const std::string &address) {
    const auto dialing = std::make_shared<Dialing>(io_, connection);
    dialing_.emplace(connection, dialing);
    if (address.starts_with(kTcp))
        return resolve(dialing, address);
    std::string path;
    if (Status status = parse_unix("peer address", address, &path); !status.ok()) {
        boost::asio::post(io_, [this, connection, status] { dial_ended(connection, status); });
        return;
    }
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, path.c_str(), path.size());
    dialing->endpoints.emplace_back(&name, sizeof name);
    connect(dialing);
}

void ControlThread::Loop::resolve(const std::shared_ptr<Dialing> &dialing, const std::string &address) {
    HostPort there;
    const Status parsed = parse_tcp("peer address", address, &there);
    boost::system::error_code not_numeric;
    const auto number = boost::asio::ip::make_address(there.host, not_numeric);
    if (!parsed.ok()) {
        boost::asio::post(io_, [this, id = dialing->connection, parsed] { dial_ended(id, parsed); });
    } else if (!not_numeric) {
        dialing->endpoints.emplace_back(boost::asio::ip::tcp::endpoint(number, there.port));
        connect(dialing);
    } else {
        dialing->resolver.async_resolve(
            there.host, std::to_string(there.port),
            [this, dialing, host = there.host](const auto &error, const auto &results) {
                if (error)
                    return dial_ended(dialing->connection,
                                      fail(KVF_ERR_BOOTSTRAP, "%s: %s", host.c_str(), error.message().c_str()));
                for (const auto &result : results)
                    dialing->endpoints.emplace_back(result.endpoint());
                connect(dialing);
            });
    }
}

// Tries the next endpoint. One that does not answer leaves the others their part of the time.
void ControlThread::Loop::connect(const std::shared_ptr<Dialing> &dialing) {
    if (!dialing_.contains(dialing->connection))
        return; // closed meanwhile
    if (dialing->next == dialing->endpoints.size()) {
        boost::asio::post(io_, [this, id = dialing->connection, why = dialing->last] { dial_ended(id, why); });
        return;
    }
    const Endpoint &endpoint = dialing->endpoints[dialing->next++];
    const int fd = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    dialing->stream = std::make_unique<Socket::Stream>(io_);
    boost::system::error_code error;
    if (fd >= 0)
        dialing->stream->assign(endpoint.protocol(), fd, error);
    if (fd < 0 || error) {
        dialing->last = fail_system(errno, "a socket");
        return connect(dialing);
    }
    no_delay(fd);
    dialing->stream->async_connect(endpoint, [this, dialing](const auto &failed) {
        dialing->patience.cancel();
        if (!failed)
            return dial_ended(dialing->connection, {});
        const bool given_up = failed == boost::asio::error::operation_aborted;
        dialing->last = fail(KVF_ERR_PEER_LOST, "%s", given_up ? "it does not answer" : failed.message().c_str());
        connect(dialing);
    });
    if (dialing->endpoints.size() == 1)
        return;
    dialing->patience.expires_after(std::chrono::nanoseconds(kDialDeadline / (dialing->endpoints.size() + 1)));
    dialing->patience.async_wait([dialing, tried = dialing->next](const auto &cancelled) {
        boost::system::error_code ignored;
        if (!cancelled && dialing->next == tried)
            dialing->stream->close(ignored);
    });
}

void ControlThread::Loop::cancel_dial(uint64_t connection) {
    const auto it = dialing_.find(connection);
    if (it == dialing_.end())
        return;
    it->second->cancel();
    dialing_.erase(it);
}

void ControlThread::Loop::dial_ended(uint64_t connection, const Status &status) {
    const auto it = dialing_.find(connection);
    if (it == dialing_.end())
        return;
    const std::shared_ptr<Dialing> dialing = std::move(it->second);
    dialing_.erase(it);
    control_.tick(monotonic_ns());
    if (!status.ok())
        return control_.dial_failed(connection, status);
    adopt(std::move(*dialing->stream), connection);
    control_.connected(connection);
}

} // namespace kvf
