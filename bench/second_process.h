// The second process of a benchmark: this program once more, started before there is an engine. It never outlives the
// first.
#pragma once

#include <sys/types.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>

#include "channel.h"

namespace bench {

class SecondProcess {
  public:
    // job: what it is to do, see run_second_process.
    explicit SecondProcess(const std::string &job);
    SecondProcess(const SecondProcess &) = delete;
    SecondProcess &operator=(const SecondProcess &) = delete;
    ~SecondProcess();

    Channel &channel() { return *channel_; }
    // Waits for its end; throws unless that was a good one.
    void finish();

  private:
    std::unique_ptr<Channel> channel_;
    pid_t pid_ = -1;
};

// One thing that the second process may be told to do, by a word and numbers.
struct Order {
    const char *word;
    std::function<void(const std::vector<uint64_t> &)> run;
};

// Does what the first process says, until that is "end".
void obey(Channel &channel, std::initializer_list<Order> orders);

// What the second process does in each benchmark; the first says over the channel with what.
void serve_rooms(Channel &channel);
void serve_shm(Channel &channel);
void serve_serving(Channel &channel);

} // namespace bench
