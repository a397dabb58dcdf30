// The chain of one request, from the name to the reply.
#include "control/bootstrap_request.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace kvf {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr uint32_t kMaxHeader = 8192;
constexpr uint64_t kMaxBody = 1U << 20;
constexpr size_t kMaxBuffer = 65536;

class Request final : public BootstrapRequest, public std::enable_shared_from_this<Request> {
  public:
    Request(asio::io_context *io, HttpCall call, Done done)
        : io_(io),
          call_(std::move(call)),
          done_(std::move(done)),
          deadline_(*io),
          patience_(*io),
          resolver_(*io),
          socket_(*io),
          buffer_(kMaxBuffer) {
        parser_.header_limit(kMaxHeader);
        parser_.body_limit(kMaxBody);
    }

    void start_clock(std::chrono::milliseconds deadline) {
        whole_ = deadline;
        deadline_.expires_after(deadline);
        deadline_.async_wait([self = shared_from_this(), deadline](error_code stopped) {
            if (!stopped)
                self->fail("did not answer within " + std::to_string(deadline.count()) + " ms");
        });
    }

    void send() override {
        error_code error;
        const asio::ip::address number = asio::ip::make_address(call_.server.host, error);
        if (!error) {
            endpoints_ = {tcp::endpoint(number, call_.server.port)};
            return connect();
        }
        resolver_.async_resolve(
            call_.server.host, std::to_string(call_.server.port),
            [self = shared_from_this()](error_code failed, const tcp::resolver::results_type &found) {
                self->on_resolved(failed, found);
            });
    }

    void fail_soon(Status status) override {
        asio::post(*io_, [self = shared_from_this(), status = std::move(status)] { self->finish(status, {}); });
    }

    void cancel() override {
        done_ = nullptr;
        stop();
    }

  private:
    void on_resolved(error_code error, const tcp::resolver::results_type &found) {
        if (!done_)
            return;
        if (error)
            return fail("has a host name without an address: " + error.message());
        for (const auto &entry : found)
            endpoints_.push_back(entry.endpoint());
        connect();
    }

    // Tries the endpoints in turn; the last one's error is the one told.
    void connect() {
        const tcp::endpoint endpoint = endpoints_[next_endpoint_++];
        connecting_ = true;
        // By hand, for Asio's own socket is not close-on-exec.
        const int fd = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
        error_code error;
        if (fd < 0)
            error.assign(errno, boost::system::system_category());
        else
            open(endpoint.protocol(), fd, &error);
        if (error) {
            asio::post(*io_, [self = shared_from_this(), error] { self->on_connected(error); });
            return;
        }
        socket_.async_connect(endpoint, [self = shared_from_this()](error_code failed) { self->on_connected(failed); });
        if (endpoints_.size() == 1)
            return;
        // One that does not answer leaves the others their part of the time.
        patience_.expires_after(whole_ / (endpoints_.size() + 1));
        patience_.async_wait([self = shared_from_this(), tried = next_endpoint_](error_code cancelled) {
            error_code ignored;
            if (!cancelled && self->connecting_ && self->next_endpoint_ == tried)
                self->socket_.close(ignored);
        });
    }

    // Owns fd.
    void open(const tcp &protocol, int fd, error_code *error) {
        error_code ignored;
        socket_.close(ignored);
        socket_.assign(protocol, fd, *error);
        if (*error)
            ::close(fd);
    }

    void on_connected(error_code error) {
        connecting_ = false;
        patience_.cancel();
        if (!done_)
            return;
        if (!error)
            return write();
        if (next_endpoint_ < endpoints_.size())
            return connect();
        if (error == asio::error::connection_refused)
            return fail("is not there: connection refused");
        fail("can't be reached: " + (error == asio::error::operation_aborted ? "it does not answer" : error.message()));
    }

    void write() {
        request_.version(11);
        request_.method_string(call_.method);
        request_.target(call_.target);
        request_.set(http::field::host, format_host_port(call_.server));
        request_.set(http::field::connection, "close");
        if (!call_.body.empty()) {
            request_.set(http::field::content_type, "application/json");
            request_.body() = std::move(call_.body);
        }
        request_.prepare_payload();
        http::async_write(socket_, request_, [self = shared_from_this()](error_code, size_t) {
            // Also after an error: the server may have answered before it closed.
            self->read();
        });
    }

    void read() {
        if (!done_)
            return;
        http::async_read(socket_, buffer_, parser_,
                         [self = shared_from_this()](error_code error, size_t) { self->on_reply(error); });
    }

    void on_reply(error_code error) {
        if (!done_)
            return;
        if (!error)
            return finish({}, {parser_.get().result_int(), std::move(parser_.get().body())});
        const std::string_view begin(static_cast<const char *>(buffer_.data().data()),
                                     std::min<size_t>(buffer_.size(), strlen("HTTP/")));
        if (!parser_.is_header_done() && !std::string_view("HTTP/").starts_with(begin))
            return finish(
                {KVF_ERR_PROTOCOL, name() + " did not answer in HTTP: perhaps it is an engine's control address, "
                                            "which is named with tcp://"},
                {});
        if (error == http::error::end_of_stream || error == http::error::partial_message ||
            error.category() == boost::system::system_category())
            return fail("closed the connection before it had answered");
        finish({KVF_ERR_PROTOCOL, name() + " did not answer in HTTP: " + error.message()}, {});
    }

    std::string name() const { return "bootstrap server " + format_host_port(call_.server); }

    void fail(const std::string &what) { finish({KVF_ERR_BOOTSTRAP, name() + ' ' + what}, {}); }

    void finish(const Status &status, const HttpReply &reply) {
        if (!done_)
            return;
        const Done done = std::move(done_);
        done_ = nullptr;
        stop();
        done(status, reply);
    }

    void stop() {
        error_code ignored;
        deadline_.cancel();
        patience_.cancel();
        resolver_.cancel();
        socket_.close(ignored);
    }

    asio::io_context *io_;
    HttpCall call_;
    Done done_;                          // null once it was called or cancelled
    std::chrono::milliseconds whole_{0}; // of the deadline
    asio::steady_timer deadline_;
    asio::steady_timer patience_; // with the endpoint that is tried, where there are others
    bool connecting_ = false;
    tcp::resolver resolver_;
    std::vector<tcp::endpoint> endpoints_;
    size_t next_endpoint_ = 0;
    tcp::socket socket_;
    http::request<http::string_body> request_;
    boost::beast::flat_buffer buffer_;
    http::response_parser<http::string_body> parser_;
};

} // namespace

std::shared_ptr<BootstrapRequest> BootstrapRequest::make(asio::io_context *io, HttpCall call,
                                                         std::chrono::milliseconds deadline, Done done) {
    auto request = std::make_shared<Request>(io, std::move(call), std::move(done));
    request->start_clock(deadline);
    return request;
}

} // namespace kvf
