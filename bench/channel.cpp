#include "channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "samples.h"

namespace bench {
namespace {

// Longer than any step of a benchmark takes, filling pools of many GiB included.
constexpr int kSilenceMs = 180'000;
constexpr size_t kMostAtOnce = 65536;

void wait_for(int fd, short events) {
    pollfd waiting{fd, events, 0};
    int ready = 0;
    do {
        ready = poll(&waiting, 1, kSilenceMs);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0)
        fail("nothing came from the other process for %d s", kSilenceMs / 1000);
    if (ready < 0)
        fail("poll: %s", std::strerror(errno));
}

} // namespace

Channel::Channel(int fd) : fd_(fd) {}

Channel::~Channel() {
    close(fd_);
}

void Channel::say(const std::string &line) {
    const std::string bytes = line + '\n';
    for (size_t sent = 0; sent < bytes.size();) {
        const ssize_t count = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count > 0)
            sent += static_cast<size_t>(count);
        else if (errno == EAGAIN)
            wait_for(fd_, POLLOUT);
        else if (errno != EINTR)
            fail("writing to the other process: %s", std::strerror(errno));
    }
}

std::string Channel::hear() {
    for (;;) {
        const size_t end = unread_.find('\n');
        if (end != std::string::npos) {
            std::string line = unread_.substr(0, end);
            unread_.erase(0, end + 1);
            return line;
        }
        wait_for(fd_, POLLIN);
        char bytes[kMostAtOnce];
        const ssize_t count = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0)
            unread_.append(bytes, static_cast<size_t>(count));
        else if (count == 0 || errno == ECONNRESET)
            fail("the other process ended");
        else if (errno != EAGAIN && errno != EINTR)
            fail("reading from the other process: %s", std::strerror(errno));
    }
}

std::string Channel::hear(std::string_view word) {
    std::string line = hear();
    if (!line.starts_with(word) || (line.size() > word.size() && line[word.size()] != ' '))
        fail("the other process said \"%.80s\" and not \"%.*s\"", line.c_str(), static_cast<int>(word.size()),
             word.data());
    line.erase(0, std::min(line.size(), word.size() + 1));
    return line;
}

std::vector<uint64_t> numbers(std::string_view line) {
    std::vector<uint64_t> out;
    for (const char *at = line.data(), *end = at + line.size(); at < end; ++at) {
        uint64_t number = 0;
        const auto parsed = std::from_chars(at, end, number);
        if (parsed.ec != std::errc{} || (parsed.ptr != end && *parsed.ptr != ' '))
            fail("\"%.80s\" is not a list of numbers", std::string(line).c_str());
        out.push_back(number);
        at = parsed.ptr;
    }
    return out;
}

std::string join(const std::vector<uint64_t> &numbers) {
    std::string out;
    for (const uint64_t number : numbers)
        out += text(out.empty() ? "%llu" : " %llu", static_cast<unsigned long long>(number));
    return out;
}

} // namespace bench
