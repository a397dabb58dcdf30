// Plain blocking sockets on the loopback for the tests of the bootstrap server and client: one side that sends any
// bytes, and a server that answers with any.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace kvf::wire {

// So that a test whose bytes never come fails instead of hanging.
inline void give_up_after_a_while(int fd) {
    const timeval limit{30, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

inline sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

inline uint16_t port_of(const std::string &address) {
    return static_cast<uint16_t>(std::atoi(address.c_str() + address.rfind(':') + 1));
}

class Socket {
  public:
    explicit Socket(int fd) : fd_(fd) { give_up_after_a_while(fd_); }
    Socket() : Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
    explicit Socket(const std::string &address) : Socket() { connect(address); }
    ~Socket() {
        if (fd_ >= 0)
            ::close(fd_);
    }
    Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)), read_(std::move(other.read_)) {}
    Socket(const Socket &) = delete;
    Socket &operator=(const Socket &) = delete;

    bool connect(const std::string &address) const {
        const sockaddr_in to = loopback(port_of(address));
        return ::connect(fd_, reinterpret_cast<const sockaddr *>(&to), sizeof to) == 0;
    }

    bool send(const std::string &bytes) const {
        size_t sent = 0;
        while (sent < bytes.size()) {
            const ssize_t now = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            if (now <= 0)
                return false;
            sent += static_cast<size_t>(now);
        }
        return true;
    }

    void end_sending() const { ::shutdown(fd_, SHUT_WR); }

    // Everything until the other side closes, or resets.
    std::string read_to_end() {
        while (read_some()) {
        }
        return std::exchange(read_, {});
    }

    // Up to and with the first occurrence of mark; less when the other side closes before.
    std::string read_until(const std::string &mark) {
        size_t found = read_.find(mark);
        while (found == std::string::npos && read_some())
            found = read_.find(mark);
        return take(found == std::string::npos ? read_.size() : found + mark.size());
    }

    std::string read_exactly(size_t bytes) {
        while (read_.size() < bytes && read_some()) {
        }
        return take(std::min(bytes, read_.size()));
    }

  private:
    bool read_some() {
        char buffer[4096];
        const ssize_t now = ::recv(fd_, buffer, sizeof buffer, 0);
        if (now <= 0)
            return false;
        read_.append(buffer, static_cast<size_t>(now));
        return true;
    }

    std::string take(size_t bytes) {
        std::string out = read_.substr(0, bytes);
        read_.erase(0, bytes);
        return out;
    }

    int fd_;
    std::string read_;
};

struct Reply {
    int status = 0; // 0: there was none
    std::string header;
    std::string body;
};

// Reads one reply that has a Content-Length.
inline Reply read_reply(Socket *socket, bool has_body = true) {
    Reply reply;
    reply.header = socket->read_until("\r\n\r\n");
    if (reply.header.rfind("HTTP/1.", 0) != 0)
        return reply;
    reply.status = std::atoi(reply.header.c_str() + 9);
    const size_t length = reply.header.find("Content-Length: ");
    if (has_body && length != std::string::npos)
        reply.body = socket->read_exactly(static_cast<size_t>(std::atoll(reply.header.c_str() + length + 16)));
    return reply;
}

inline std::string request(const std::string &method, const std::string &target, const std::string &body = "") {
    return method + ' ' + target + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

// Takes connections one after the other on a thread of its own and gives each to serve, until it is destroyed.
class Server {
  public:
    explicit Server(std::function<void(Socket &)> serve) : serve_(std::move(serve)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address = loopback(0);
        socklen_t length = sizeof address;
        if (::bind(listener_, reinterpret_cast<sockaddr *>(&address), length) != 0 || ::listen(listener_, 128) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr *>(&address), &length) != 0)
            std::abort();
        address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
        thread_ = std::thread([this] { run(); });
    }

    ~Server() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    const std::string &address() const { return address_; }

  private:
    void run() {
        for (;;) {
            const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (fd < 0)
                return;
            Socket socket(fd);
            serve_(socket);
        }
    }

    std::function<void(Socket &)> serve_;
    int listener_ = -1;
    std::string address_;
    std::thread thread_;
};

// Answers every connection with these bytes, whatever is asked, and closes it.
inline std::function<void(Socket &)> answering(std::string bytes) {
    return [bytes = std::move(bytes)](Socket &socket) {
        socket.read_until("\r\n\r\n");
        socket.send(bytes);
        socket.end_sending();
        socket.read_to_end();
    };
}

} // namespace kvf::wire
