// From what a receiver's caller named to a control address: through a bootstrap server, whose answers are kept while
// they hold, or directly. Rooms wait here while the server is asked, again and again when it does not know.
#pragma once

#include "control/alarm.h"
#include "control/bootstrap_types.h"
#include "control/control_config.h"
#include "control/control_port.h"
#include "control/counters.h"
#include "control/retry.h"
#include "room/messages.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace kvf {

// Rooms that wait for the same thing, by handle.
using Waiting = std::set<uint64_t>;

// A room that waits for its peer.
struct Seek {
    RoomHandle room;
    uint64_t room_id = 0;
    Target target;
    Waiting *where = nullptr;             // what it waits in; null: nothing
    const std::string *address = nullptr; // of the place that it waits at; null: it is not found yet
    std::string told;                     // why it waits, as its room was told last
    std::optional<Cause> gone;            // the room gave up for this; only its sender is to be told of it still
    uint64_t gone_until = kNever;         // and not after that
};

// By the room's handle. Elements stay where they are.
using Seeks = std::unordered_map<uint64_t, Seek>;

class Finder {
  public:
    // What becomes of a seek; called with one that waits for nothing any more, or (delayed) goes on waiting.
    class Answers {
      public:
        virtual ~Answers() = default;
        virtual void found(Seek &seek, const std::string &address) = 0;
        virtual void delayed(Seek &seek, const std::string &why) = 0;
        virtual void refused(Seek &seek, Cause cause) = 0;
    };

    Finder(const ControlConfig &config, ControlPort &port, Seeks &seeks, Alarm &alarm, ControlCounters &counters,
           Answers &answers);

    // The address when it is known already, else null. Cheap: every room passes here.
    const std::string *known(const Target &target, uint64_t room_id) const;

    // Whether known() says the same for every room.
    bool same_for_all(const Target &target) const;

    // Answers later, or before it returns.
    void find(Seek &seek, uint64_t now);

    // Nobody answers at that address, or not the one who did: what led there is asked anew.
    void forget(const std::string &address);

    // Replies, by request; others than ours are ignored.
    void topology_came(uint64_t request, const Status &status, const Topology &topology, uint64_t now);
    void rank_came(uint64_t request, const Status &status, const RankAddress &address, uint64_t now);
    void dp_rank_came(uint64_t request, const Status &status, std::optional<uint32_t> dp_rank, uint64_t now);

    void tick(uint64_t now);

  private:
    // Something that a server is asked for, and who waits for the answer.
    struct Inquiry {
        uint64_t request = 0; // under way; 0: none
        uint64_t retry_at = kNever;
        Retry retry;
        std::string why; // the last failure, "" after a success
        Waiting waiting;

        bool idle() const { return request == 0 && waiting.empty(); }
    };
    struct Rank {
        std::string address; // "": not known
        Inquiry inquiry;
    };
    struct Site { // a bootstrap server
        std::string server;
        std::optional<Topology> topology;
        bool complained_of = false; // in the log, since an address was had from it last
        Inquiry inquiry;
        std::map<uint32_t, Rank> ranks;    // by dp rank
        std::map<uint64_t, Inquiry> rooms; // whose dp rank is asked for, by handle
    };
    struct Request {
        Site *site = nullptr;
        uint32_t dp = 0;   // of a rank
        uint64_t room = 0; // handle, of a room's dp rank
    };

    void go_on(Site &site, Seek &seek, uint64_t now);
    void want_rank(Site &site, Seek &seek, uint32_t dp, uint64_t now);
    Status check_sizes(const Site &site) const;
    bool asks_for_room(const Site &site, const Target &target) const;
    Seek *join(Inquiry &inquiry, Seek &seek);
    template <typename Ask>
    void ask(Inquiry &inquiry, Request request, Ask ask);
    void ask_topology(Site &site);
    void ask_rank(Site &site, uint32_t dp);
    void ask_room(Site &site, uint64_t room);
    std::optional<Request> take(uint64_t request);
    void failed(Site &site, Inquiry &inquiry, const Status &status, uint64_t now);
    Waiting succeeded(Inquiry &inquiry);
    Seek *waiter(uint64_t room);
    bool due(Inquiry &inquiry, uint64_t now);
    void tick_site(Site &site, uint64_t now);
    static bool unused(const Site &site);

    const ControlConfig &config_;
    ControlPort &port_;
    Seeks &seeks_;
    Alarm &alarm_;
    ControlCounters &counters_;
    Answers &answers_;
    std::map<std::string, Site, std::less<>> sites_; // by server; elements stay where they are
    std::map<uint64_t, Request> requests_;
    uint64_t next_request_ = 2; // even: the odd ones are Registration's
};

} // namespace kvf
