// The connection's chain of reads and writes. One request is read, answered and written before the next is looked at.
#include "control/bootstrap_session.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <utility>

namespace kvf {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using beast::error_code;
using boost::asio::ip::tcp;

// What may be read beyond the header in one go.
constexpr size_t kReadAhead = 65536;

// After the last reply what the peer still sends is read and dropped, for closing a socket with unread input resets
// the connection, and the peer may lose the reply. This bounds for how long, and how much.
constexpr std::chrono::seconds kLinger{2};
constexpr size_t kLingerBytes = 4U << 20;

bool is_http_error(const error_code &error) {
    return error.category() == http::make_error_code(http::error::bad_method).category();
}

BootstrapRegistry::Reply refusal(const error_code &error) {
    BootstrapRegistry::Reply reply;
    if (error == http::error::body_limit) {
        reply.status = 413;
        reply.body = "the body is too long";
    } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
        reply.status = 431;
        reply.body = "the header is too long";
    } else {
        reply.status = 400;
        reply.body = "not HTTP: " + error.message();
    }
    return reply;
}

class Session : public std::enable_shared_from_this<Session> {
  public:
    Session(tcp::socket socket, BootstrapRegistry *registry, const BootstrapLimits &limits, std::shared_ptr<void> place)
        : place_(std::move(place)),
          stream_(std::move(socket)),
          registry_(registry),
          limits_(limits),
          buffer_(limits.header_bytes + kReadAhead) {}

    void read_header() {
        parser_.emplace();
        parser_->header_limit(limits_.header_bytes);
        parser_->body_limit(limits_.body_bytes);
        // For the whole request, so that a peer that sends a byte now and then does not stay for ever.
        stream_.expires_after(limits_.idle);
        http::async_read_header(stream_, buffer_, *parser_,
                                [self = shared_from_this()](error_code error, size_t) { self->on_header(error); });
    }

  private:
    void on_header(error_code error) {
        if (error)
            return on_broken(error);
        const auto &header = parser_->get();
        if (header.version() >= 11 && beast::iequals(header[http::field::expect], "100-continue"))
            return write_continue();
        read_body();
    }

    void write_continue() {
        continue_ = {};
        continue_.version(11);
        continue_.result(http::status::continue_);
        http::async_write(stream_, continue_, [self = shared_from_this()](error_code error, size_t) {
            if (!error)
                self->read_body();
        });
    }

    void read_body() {
        http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
            if (error)
                return self->on_broken(error);
            self->answer();
        });
    }

    // Silence, a reset or an end between two requests get no reply; whoever talks nonsense is told so once.
    void on_broken(const error_code &error) {
        if (!is_http_error(error) || error == http::error::end_of_stream || error == http::error::partial_message)
            return;
        write(refusal(error), 11, false, false);
    }

    void answer() {
        const auto &request = parser_->get();
        const auto method = request.method_string();
        const auto target = request.target();
        BootstrapRegistry::Reply reply =
            registry_->handle({method.data(), method.size()}, {target.data(), target.size()}, request.body());
        write(std::move(reply), request.version(), request.keep_alive(), request.method() == http::verb::head);
    }

    void write(BootstrapRegistry::Reply reply, unsigned version, bool keep_alive, bool head) {
        reply_ = {};
        reply_.version(version);
        reply_.result(reply.status);
        reply_.set(http::field::content_type, reply.content_type);
        if (!reply.allow.empty())
            reply_.set(http::field::allow, reply.allow);
        reply_.keep_alive(keep_alive);
        reply_.content_length(reply.body.size());
        reply_.body() = std::move(reply.body);
        serializer_.emplace(reply_);
        stream_.expires_after(limits_.idle);
        auto written = [self = shared_from_this(), keep_alive](error_code error, size_t) {
            if (error)
                return;
            if (keep_alive)
                self->read_header();
            else
                self->close();
        };
        // The reply to a HEAD has the length of the body, but not the body.
        if (head)
            http::async_write_header(stream_, *serializer_, std::move(written));
        else
            http::async_write(stream_, *serializer_, std::move(written));
    }

    void close() {
        error_code error;
        stream_.socket().shutdown(tcp::socket::shutdown_send, error);
        if (error)
            return;
        stream_.expires_after(kLinger);
        drop_input();
    }

    void drop_input() {
        stream_.async_read_some(boost::asio::buffer(dropped_),
                                [self = shared_from_this()](error_code error, size_t bytes) {
                                    self->dropped_bytes_ += bytes;
                                    if (!error && self->dropped_bytes_ < kLingerBytes)
                                        self->drop_input();
                                });
    }

    std::shared_ptr<void> place_; // first, so let go last
    beast::tcp_stream stream_;
    BootstrapRegistry *registry_;
    BootstrapLimits limits_;
    beast::flat_buffer buffer_;
    std::optional<http::request_parser<http::string_body>> parser_; // a parser is good for one message
    http::response<http::empty_body> continue_;
    http::response<http::string_body> reply_;
    std::optional<http::response_serializer<http::string_body>> serializer_;
    std::array<char, 4096> dropped_{};
    size_t dropped_bytes_ = 0;
};

} // namespace

void serve_bootstrap(tcp::socket socket, BootstrapRegistry *registry, const BootstrapLimits &limits,
                     std::shared_ptr<void> place) {
    std::make_shared<Session>(std::move(socket), registry, limits, std::move(place))->read_header();
}

} // namespace kvf
