// The judge: knows from the outside which pages belong to whom, what they must hold, and what each room has been seen
// to do; independent of the code that it judges. Whatever breaks a promise is a violation.
#pragma once

#include "engine.h"

#include <map>
#include <memory>
#include <vector>

namespace kvf::sim {

// One request: what a sender's pages hold and its receivers' pages must hold in the end.
struct Request {
    uint64_t id = 0;
    uint64_t serial = 0;         // tells requests of one id apart
    uint32_t pages = 0, aux = 0; // how many of each group
    bool given_up = false;       // by a caller: one of its rooms was aborted, or closed before its end
};

// One room, as seen from outside, from its open until its handle is stale.
struct SeenRoom {
    EngineRef engine;
    RoomHandle handle;
    std::shared_ptr<Request> request;
    bool sender = false;
    uint64_t opened = 0;
    std::vector<uint32_t> pages[2]; // by group
    uint8_t state = KVF_STATE_BOOTSTRAPPING;
    bool quiesced = false;
    int code = KVF_OK;
    uint64_t ended = 0;
    bool gone = false;   // closed, or its engine is
    bool filled = false; // a sender's pages hold what they should
    bool over() const { return state == KVF_STATE_FAILED || state == KVF_STATE_SUCCESS; }
};
using SeenRef = std::shared_ptr<SeenRoom>;

class Model {
  public:
    explicit Model(World &world) : world_(world) {}

    // Nothing goes wrong in this run: rooms that nobody gives up succeed.
    bool orderly = false;
    // No phase of a room may be longer, give or take what its engine is late.
    uint64_t deadline = UINT64_MAX;

    // Takes pages that nobody owns; false when there are too few.
    bool own_pages(const SeenRef &room);
    void opened(const SeenRef &room);
    // The room's pages are free for others; what they held is gone.
    void free_pages(SeenRoom &room);
    void engine_gone(const SimEngine &engine);
    void fill(SeenRoom &room);

    void changed(SimEngine &engine, uint32_t slot);
    void landed(const Piece &piece);
    SeenRef find(const SimEngine &engine, RoomHandle handle) const;

    const std::vector<SeenRef> &live() const { return live_; }
    void sweep(); // forgets rooms that are gone
    uint64_t successes = 0, failures = 0;
    std::map<int, uint64_t> codes;

  private:
    struct PageKey {
        uint64_t incarnation;
        uint32_t group, page;
        auto operator<=>(const PageKey &) const = default;
    };
    SeenRef owner(const Memory &memory, uint64_t offset);
    void verify(const SeenRoom &room);
    void judge_end(const SeenRoom &room);
    uint8_t expected(const Request &request, uint32_t group, uint32_t tensor, uint32_t position, uint32_t byte) const;
    static std::string name(const SeenRoom &room);

    World &world_;
    std::map<PageKey, SeenRef> owners_;
    std::map<std::pair<uint64_t, uint64_t>, SeenRef> by_handle_; // (incarnation, handle)
    std::map<uint64_t, std::weak_ptr<SimEngine>> engines_;       // by incarnation
    std::vector<SeenRef> live_;
};

} // namespace kvf::sim
