// A program that runs as a child process and is talked to by lines, over a socket that is its standard input and
// output. Its standard error is ours.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lines.h"

namespace llama {

class Child {
  public:
    // Fails, naming the program, when it can't be started.
    Child(std::string name, const std::string &program, const std::vector<std::string> &arguments);
    // Kills it when it still runs.
    ~Child();
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    const std::string &name() const { return name_; }
    pid_t pid() const { return pid_; }
    int fd() const { return socket_; }

    // Keeps the line until flush can send it; never blocks.
    void say(const std::string &line);
    bool wants_to_write() const { return !unsent_.empty(); }
    void flush();

    // Takes what is there to read; false when the child closed its end.
    bool read_some() { return reader_.read_some(); }
    bool next(std::string &line) { return reader_.next(line); }

    // Waits for its end, and after that long kills it. How it ended, in words; "" for an exit status of 0.
    std::string finish(int timeout_ms);

  private:
    std::string reap();

    std::string name_;
    pid_t pid_ = -1; // -1: reaped
    int socket_ = -1;
    LineReader reader_{-1};
    std::string unsent_;
};

} // namespace llama
