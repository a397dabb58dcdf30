// The router: chooses room ids, tells the prefill and the decode process of each request at the same time, and gathers
// what they tell. It also runs the bootstrap server by which the two find each other.
#pragma once

#include <kvferry/kvferry.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "child.h"
#include "generate.h"
#include "report.h"

namespace llama {

struct Request {
    std::vector<Token> prompt;
    Limit limit;
};

// What became of a request.
struct Outcome {
    uint64_t room_id = 0;
    std::vector<Token> tokens;
    uint32_t chunks = 0; // the prompt was sent in
    std::optional<Report> prefill, decode;
    bool done = false; // all tokens are there
    std::string wrong; // with what arrived

    // Nothing more will be told of it.
    bool over() const;
    // Why it failed; "" when it did not.
    std::string failure() const;
};

struct RouterOptions {
    std::string prefill_program, decode_program;
    std::string model;
    std::string transport, transport_options;
    uint32_t prefill_pages = 0, decode_pages = 0;
    uint32_t rooms = 0; // open at the same time
    uint32_t chunk_tokens = 0;
    uint64_t seed = 0;
    int silence_ms = 60000; // in which no process says anything, and the run is given up
    std::function<void(const std::string &)> progress;
};

class Router {
  public:
    // Starts the bootstrap server and both processes, and waits until they are ready.
    explicit Router(RouterOptions options);

    // Puts all requests through as concurrent rooms. Fails when a process ends or falls silent.
    std::vector<Outcome> run(const std::vector<Request> &requests);

    // Ends both processes; fails when one did not exit well.
    void close();

  private:
    struct StopBootstrap {
        void operator()(kvf_bootstrap *bootstrap) const;
    };
    struct Peer {
        std::optional<Child> child;
        bool ready = false;
    };

    void start(Peer &peer, const char *name, const std::string &program, uint32_t pages, uint64_t seed);
    template <typename Done>
    void serve_until(Done done);
    void read(Peer &peer);
    void take_line(Peer &peer, const std::string &line);
    Outcome &outcome(uint64_t room_id);

    RouterOptions options_;
    std::unique_ptr<kvf_bootstrap, StopBootstrap> bootstrap_;
    Peer prefill_, decode_;
    std::vector<Outcome> outcomes_; // of rooms kFirstRoom, kFirstRoom + 1, ...
};

} // namespace llama
