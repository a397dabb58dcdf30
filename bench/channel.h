// Lines of words between the two processes of a benchmark, over a socket. Nothing here waits for ever, and the end of
// the other process, which says itself why, is a failure.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "figure.h"

namespace bench {

class Channel {
  public:
    // Takes the descriptor over.
    explicit Channel(int fd);
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;
    ~Channel();

    void say(const std::string &line);
    // The next line.
    std::string hear();
    // The next line, which must begin with the word; what follows it.
    std::string hear(std::string_view word);

  private:
    int fd_;
    std::string unread_;
};

// The numbers of a line.
std::vector<uint64_t> numbers(std::string_view line);
std::string join(const std::vector<uint64_t> &numbers);

} // namespace bench
