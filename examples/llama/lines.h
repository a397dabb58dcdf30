// What the router and the two engines say to each other: lines of words, over a pipe or a socket.
//
//   router to prefill    room ID TOKEN...                      prefill this prompt and send its cache
//   router to decode     room ID PROMPT_TOKENS MOST STOP       receive that many tokens' cache and go on from it
//   router to both       end                                   no more rooms: finish these and exit
//   both to router       ready                                 registered, rooms may come
//   prefill to router    chunk ID TOKENS                       so many tokens of the prompt are computed and enqueued
//   decode to router     token ID TOKEN                        the next token of the room's answer
//   both to router       report ID ...                         the transfer ended; see report.h
//   decode to router     wrong ID WHY                          what arrived is not what was sent; the room is over
//   decode to router     done ID                               its last token was told
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "text.h"

namespace llama {

// Cuts what comes through a descriptor into lines.
class LineReader {
  public:
    explicit LineReader(int fd) : fd_(fd) {}

    int fd() const { return fd_; }
    // Reads once; blocks when nothing is there. False at the end of the stream.
    bool read_some();
    // Takes the next whole line that was read, without its line feed. False: none yet.
    bool next(std::string &line);

  private:
    int fd_;
    std::string buffer_;
    size_t at_ = 0; // of the first byte not yet given out
};

// The words of one line, in turn. Fails, naming the line, where it is not what is asked for.
class Words {
  public:
    explicit Words(std::string_view line) : line_(line), left_(line) {}

    bool empty() const { return left_.empty(); }
    std::string_view word();
    std::string_view rest();

    template <typename Number>
    Number number() {
        const std::string_view digits = word();
        Number out{};
        const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), out);
        if (result.ec != std::errc{} || result.ptr != digits.data() + digits.size())
            fail("\"%.*s\" is not a number that fits, in the line \"%.80s\"", static_cast<int>(digits.size()),
                 digits.data(), std::string(line_).c_str());
        return out;
    }

  private:
    std::string_view line_, left_;
};

} // namespace llama
