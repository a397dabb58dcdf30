#include "lines.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace llama {

bool LineReader::read_some() {
    char piece[16384];
    ssize_t count = 0;
    do {
        count = read(fd_, piece, sizeof piece);
    } while (count < 0 && errno == EINTR);
    // A socket whose other end died with data unread is reset: that too is its end.
    if (count < 0 && errno != ECONNRESET)
        fail("reading descriptor %d: %s", fd_, std::strerror(errno));
    if (count <= 0)
        return false;
    buffer_.append(piece, static_cast<size_t>(count));
    return true;
}

bool LineReader::next(std::string &line) {
    const size_t end = buffer_.find('\n', at_);
    if (end == std::string::npos) {
        buffer_.erase(0, at_);
        at_ = 0;
        return false;
    }
    line.assign(buffer_, at_, end - at_);
    at_ = end + 1;
    return true;
}

std::string_view Words::word() {
    if (left_.empty())
        fail("a word is missing at the end of the line \"%.80s\"", std::string(line_).c_str());
    const size_t end = std::min(left_.find(' '), left_.size());
    const std::string_view out = left_.substr(0, end);
    left_.remove_prefix(std::min(end + 1, left_.size()));
    return out;
}

std::string_view Words::rest() {
    const std::string_view out = left_;
    left_ = {};
    return out;
}

} // namespace llama
