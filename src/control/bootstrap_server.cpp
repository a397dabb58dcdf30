// Listening, accepting, and the thread of the bootstrap server.
#include "control/bootstrap_server.h"

#include "base/log.h"
#include "base/signals.h"
#include "control/bootstrap_address.h"
#include "control/bootstrap_session.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <thread>
#include <utility>

namespace kvf {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr const char *kWhat = "bootstrap listen address";

// Between two tries to accept when there are no descriptors: what frees one tells nobody.
constexpr std::chrono::milliseconds kAcceptPause{100};

// Connections accepted before those that are there get a turn.
constexpr int kAcceptBatch = 32;

Status resolve(const std::string &listen, tcp::endpoint *out) {
    HostPort address;
    Status status = parse_host_port(kWhat, listen, &address);
    if (!status.ok())
        return status;
    error_code error;
    const asio::ip::address number = asio::ip::make_address(address.host, error);
    if (!error) {
        *out = {number, address.port};
        return {};
    }
    asio::io_context io;
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(address.host, std::to_string(address.port), tcp::resolver::passive, error);
    if (error || found.empty())
        return {KVF_ERR_INVALID,
                std::string(kWhat) + " '" + listen + "': no address of " + address.host + ": " + error.message()};
    *out = found.begin()->endpoint();
    return {};
}

Status listen_failed(int error, const std::string &listen) {
    if (error == EADDRINUSE)
        return {KVF_ERR_ADDRESS_IN_USE, std::string(kWhat) + " '" + listen + "' is in use"};
    if (error == EADDRNOTAVAIL)
        return {KVF_ERR_INVALID, std::string(kWhat) + " '" + listen + "' is no address of this host"};
    return fail_system(error, std::string(kWhat) + " '" + listen + "'");
}

} // namespace

// Everything but start, stop and the constructor runs on the thread.
class BootstrapServer::Listener {
  public:
    Listener(uint32_t max_rooms, const BootstrapLimits &limits)
        : registry_(max_rooms), limits_(limits), io_(1), acceptor_(io_), pause_(io_) {}

    ~Listener() {
        io_.stop();
        if (thread_.joinable())
            thread_.join();
    }

    Status listen(const std::string &listen, bool trust_network, std::string *address) {
        tcp::endpoint endpoint;
        Status status = resolve(listen, &endpoint);
        if (!status.ok())
            return status;
        if (!trust_network && !is_loopback(endpoint.address().to_string()))
            return kvf::fail(KVF_ERR_INVALID,
                             "%s '%s' is open to other hosts, and who asks or registers proves nothing: set "
                             "KVF_TRUST_NETWORK=1 where only trusted hosts reach it, or listen on 127.0.0.1",
                             kWhat, listen.c_str());
        // By hand, for Asio's own socket is not close-on-exec.
        const int fd = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
        if (fd < 0)
            return listen_failed(errno, listen);
        error_code error;
        acceptor_.assign(endpoint.protocol(), fd, error);
        if (error) {
            ::close(fd);
            return listen_failed(error.value(), listen);
        }
        acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
        if (!error)
            acceptor_.bind(endpoint, error);
        if (!error)
            acceptor_.listen(tcp::acceptor::max_listen_connections, error);
        if (error)
            return listen_failed(error.value(), listen);
        const tcp::endpoint bound = acceptor_.local_endpoint(error);
        *address = format_host_port({bound.address().to_string(), bound.port()});
        return {};
    }

    void start() {
        wait_for_connection();
        {
            const BlockedSignals blocked;
            thread_ = std::thread([this] { run(); });
        }
        pthread_setname_np(thread_.native_handle(), "kvf-bootstrap");
    }

    uint64_t accept_failures() const { return accept_failures_; }

    // In a child after fork: Asio's own close would also take the parent's sockets out of the epoll set that both
    // share, and the thread to join is not here. So the rest of the listener is left as it is.
    void forget_in_child() { ::close(acceptor_.native_handle()); }

  private:
    void run() noexcept {
        for (;;) {
            try {
                io_.run();
                return;
            } catch (const std::exception &exception) {
                // Out of memory in one connection, which has lost its handler and is closed; the others go on.
                log(KVF_LOG_ERROR, "bootstrap server: %s", exception.what());
            }
        }
    }

    void wait_for_connection() {
        acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code error) {
            if (error)
                wait_a_while(error.value());
            else
                accept();
        });
    }

    void accept() {
        for (int i = 0; i < kAcceptBatch; ++i) {
            const int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd >= 0)
                admit(fd);
            else if (errno == EAGAIN)
                break;
            else if (errno != EINTR && errno != ECONNABORTED)
                return wait_a_while(errno);
        }
        wait_for_connection();
    }

    void wait_a_while(int error) {
        // Once, not for each try: the log is not the place to count.
        if (accept_failures_++ == 0)
            log(KVF_LOG_WARN, "%s", fail_system(error, "bootstrap server: accept").sentence().c_str());
        pause_.expires_after(kAcceptPause);
        pause_.async_wait([this](error_code stopped) {
            if (!stopped)
                accept();
        });
    }

    // Owns fd.
    void admit(int fd) noexcept {
        error_code error;
        tcp::socket socket(io_);
        socket.assign(acceptor_.local_endpoint(error).protocol(), fd, error);
        if (error) {
            ::close(fd);
            return;
        }
        if (open_ >= limits_.connections)
            return;
        try {
            ++open_;
            std::shared_ptr<void> place(nullptr, [this](void *) { --open_; });
            socket.set_option(tcp::no_delay(true), error); // replies are small and waited for
            serve_bootstrap(std::move(socket), &registry_, limits_, std::move(place));
        } catch (const std::exception &exception) {
            log(KVF_LOG_ERROR, "bootstrap server: a connection was refused: %s", exception.what());
        }
    }

    BootstrapRegistry registry_;
    BootstrapLimits limits_;
    uint32_t open_ = 0; // connections; before io_, whose end closes them
    std::atomic<uint64_t> accept_failures_{0};
    asio::io_context io_;
    tcp::acceptor acceptor_;
    asio::steady_timer pause_;
    std::thread thread_;
};

Status BootstrapServer::start(const std::string &listen, bool trust_network, uint32_t max_rooms,
                              std::unique_ptr<BootstrapServer> *out, const BootstrapLimits &limits) {
    try {
        auto listener = std::make_unique<Listener>(max_rooms, limits);
        std::string address;
        Status status = listener->listen(listen, trust_network, &address);
        if (!status.ok())
            return status;
        std::unique_ptr<BootstrapServer> server(new BootstrapServer(std::move(listener), std::move(address)));
        server->listener_->start();
        *out = std::move(server);
        return {};
    } catch (const std::exception &exception) {
        // No memory, no thread, no descriptor for the reactor.
        return {KVF_ERR_SYSTEM, std::string("bootstrap server: ") + exception.what()};
    }
}

BootstrapServer::BootstrapServer(std::unique_ptr<Listener> listener, std::string address)
    : listener_(std::move(listener)), address_(std::move(address)), pid_(::getpid()) {}

BootstrapServer::~BootstrapServer() {
    if (::getpid() == pid_)
        return;
    listener_->forget_in_child();
    // NOLINTNEXTLINE(bugprone-unused-return-value): the child has no way to end it that leaves the parent alone.
    static_cast<void>(listener_.release());
}

uint64_t BootstrapServer::accept_failures() const {
    return listener_->accept_failures();
}

} // namespace kvf
