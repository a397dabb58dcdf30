#include "control/socket.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include <chrono>
#include <utility>

namespace kvf {
namespace {

constexpr size_t kMostQueued = 64u << 20; // unsent bytes of one connection
constexpr size_t kKeptQueue = 1u << 20;   // a larger buffer is given back once it is empty

} // namespace

// in_ is left as it is: its pages are touched only as far as bytes come.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
Socket::Socket(Stream stream, uint64_t id, Events &events, size_t &unsent, Descriptors &descriptors)
    : stream_(std::move(stream)),
      id_(id),
      events_(&events),
      timer_(stream_.get_executor()),
      unsent_(unsent),
      descriptors_(descriptors) {
    descriptors_.add(stream_.native_handle());
    boost::system::error_code ignored;
    stream_.non_blocking(true, ignored);
}

void Socket::start() {
    read();
}

void Socket::read() {
    stream_.async_read_some(boost::asio::buffer(in_), [self = shared_from_this()](const auto &error, size_t size) {
        self->on_read(error, size);
    });
}

void Socket::on_read(const boost::system::error_code &error, size_t size) {
    if (events_ == nullptr)
        return;
    if (error)
        return lingering_ ? gone() : failed(error);
    if (!lingering_)
        events_->socket_received(id_, {in_.data(), size});
    if (events_ != nullptr)
        read();
}

// ------------------------------------------------------------------------------------------------------------ sending

bool Socket::queue(std::span<const uint8_t> bytes) {
    if (unsent() + bytes.size() > kMostQueued)
        return false;
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    unsent_ += bytes.size();
    return true;
}

void Socket::flush() {
    if (events_ == nullptr || waiting_)
        return;
    while (out_at_ < out_.size()) {
        boost::system::error_code error;
        const auto rest = boost::asio::buffer(out_.data() + out_at_, out_.size() - out_at_);
        const size_t written = stream_.write_some(rest, error);
        out_at_ += written;
        unsent_ -= written;
        if (error == boost::asio::error::would_block || error == boost::asio::error::try_again)
            return write_when_ready();
        if (error)
            return lingering_ ? gone() : failed(error);
    }
    out_at_ = 0;
    if (out_.capacity() > kKeptQueue)
        out_ = {};
    else
        out_.clear();
    if (lingering_) {
        boost::system::error_code ignored;
        stream_.shutdown(Stream::shutdown_send, ignored);
    }
}

void Socket::write_when_ready() {
    if (out_at_ > out_.size() / 2) {
        out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(out_at_));
        out_at_ = 0;
    }
    waiting_ = true;
    stream_.async_wait(Stream::wait_write, [self = shared_from_this()](const auto &error) {
        self->waiting_ = false;
        if (!error)
            self->flush();
    });
}

// ------------------------------------------------------------------------------------------------------------- ending

void Socket::failed(const boost::system::error_code &error) {
    const std::string why = error == boost::asio::error::eof ? "the peer closed it" : error.message();
    // Last: the socket may be dropped in there.
    events_->socket_closed(id_, {KVF_ERR_PEER_LOST, why});
}

void Socket::linger(uint32_t ms) {
    lingering_ = true;
    timer_.expires_after(std::chrono::milliseconds(ms));
    timer_.async_wait([self = shared_from_this()](const auto &error) {
        if (!error && self->events_ != nullptr)
            self->gone();
    });
    flush();
}

void Socket::gone() {
    Events *events = events_;
    drop();
    events->socket_gone(id_);
}

void Socket::drop() {
    if (std::exchange(events_, nullptr) != nullptr)
        unsent_ -= unsent();
    boost::system::error_code ignored;
    timer_.cancel();
    if (stream_.is_open())
        descriptors_.remove(stream_.native_handle());
    stream_.close(ignored);
}

} // namespace kvf
