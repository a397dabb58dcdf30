// The control plane's decisions: connections to peers and their sessions, the rooms that wait for one, links and their
// end. Sans I/O: what happens comes in through functions, what is to be done goes out through ControlPort; one thread.
//
// control.cpp: the engine's calls, the clock. control_connections.cpp: connections. control_places.cpp: from seeks to
// sessions. control_links.cpp: links. control_settle.cpp: rooms whose link was lost. control_rooms.cpp: messages of
// rooms.
#pragma once

#include "control/alarm.h"
#include "control/codec.h"
#include "control/control_config.h"
#include "control/control_port.h"
#include "control/counters.h"
#include "control/exports.h"
#include "control/finder.h"
#include "control/frame_reader.h"
#include "control/registration.h"
#include "control/releases.h"
#include "control/session.h"
#include "room/messages.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvf {

class Control final : private Finder::Answers {
  public:
    // address: where this engine listens, "" when it does not. config is copied; the port outlives this.
    Control(const ControlConfig &config, const std::string &address, ControlPort &port, uint64_t now);
    ~Control();
    Control(const Control &) = delete;
    Control &operator=(const Control &) = delete;

    // ------------------------------------------------------------------------------------------- from the engine

    // The engine's tensors are these now: a layout of a higher version, and its regions as each transport that was
    // added has them. What the transports say when they can't export a key; then nothing has changed.
    Status set_layout(std::shared_ptr<const Layout> layout, const std::vector<TransportRegions> &regions);

    // regions: of the layout that was set last, empty without one.
    Status add_transport(const std::shared_ptr<Transport> &transport, const std::vector<kvf_region *> &regions);

    // No new peers for it, and no new rooms on sessions that use it: those end when their rooms have.
    void remove_transport(const std::string &name);

    // How many peers of that transport there are; 0 when it can be closed.
    size_t peers_of(const std::string &transport) const;

    // Tells peers (who see KVF_ERR_PEER_CLOSED) and closes all connections; waiting rooms and later ones get the cause.
    void shutdown(const Cause &cause);

    void handle(ToControl &&message);

    // The last call of the control thread: from here on a peer ends on the thread that drops its Link.
    void end();

    // ------------------------------------------------------------------------------------------- from the sockets

    // The connection's id, or 0: there are too many, close it.
    uint64_t accepted(const std::string &peer_address);
    void connected(uint64_t connection);
    void dial_failed(uint64_t connection, const Status &why);
    void received(uint64_t connection, std::span<const uint8_t> bytes);
    // It is gone: KVF_ERR_PEER_LOST, or another code that says more.
    void closed(uint64_t connection, const Status &why);

    void topology_came(uint64_t request, const Status &status, const Topology &topology);
    void rank_came(uint64_t request, const Status &status, const RankAddress &address);
    void dp_rank_came(uint64_t request, const Status &status, std::optional<uint32_t> dp_rank);
    void registered(uint64_t request, const Status &status);

    // Moves the clock; before other inputs whenever it has moved.
    void tick(uint64_t now);
    // When to tick at the latest, kNever: nothing is due.
    uint64_t next_deadline() const { return alarm_.due(); }

    const ControlCounters &counters() const { return counters_; }

  private:
    // A control address that rooms want to reach: at most one connection, and those who wait for it.
    struct Place {
        std::string address;
        uint64_t connection = 0;    // dialing or standing; 0: none
        uint64_t retry_at = kNever; // pausing
        uint64_t idle_at = kNever;  // when nobody wanted it any more
        Retry retry{10 * kNanosPerMilli, 2000 * kNanosPerMilli};
        std::string why; // the last failure
        Waiting waiting;
        Waiting settling;
    };

    // A room whose link was lost, until the engine behind it says that nothing of the room is in flight.
    struct Settle {
        uint64_t room_id = 0;
        uint64_t receiver = 0;   // the room's handle
        uint64_t instance = 0;   // that has to say so
        uint64_t offered_on = 0; // its number of the lost connection
        Cause cause;
        Place *place = nullptr;
    };

    struct Connection {
        uint64_t id = 0;
        Place *place = nullptr;    // of a dialed one that new rooms may use
        uint64_t dial_by = kNever; // while it is being dialed
        FrameReader reader{kFirstFrameBound};
        std::unique_ptr<Session> session; // null while it is being dialed
        LinkRef link;                     // in state ready
        uint64_t explain_at = kNever;     // when to tell waiting rooms that it is tensors they wait for
        bool retiring = false;            // ends when its rooms have
        std::string source;               // the host of an accepted one
        size_t told_bytes = 0;            // of its LAYOUT and REGIONS, which the handshake keeps
        size_t unready_bytes = 0;         // what it holds of what peers that are not ready may hold in all
        uint64_t patient_until = 0;       // retiring: the other side has until then to end it
    };

    // A link that somebody may hold still.
    struct LinkRecord {
        std::weak_ptr<const Link> link;
        std::shared_ptr<PeerHandle> peer;
        std::string address;          // that was dialed
        uint64_t peer_connection = 0; // the peer's number of the connection
        uint64_t fence_at = kNever;   // lost and not fenced yet
        Retry fence_retry{kNanosPerMilli, 1000 * kNanosPerMilli};
        std::string fence_why;
        bool orderly = false; // the peer's engine was closed, which is no cause for concern
    };

    // Finder::Answers
    void found(Seek &seek, const std::string &address) override;
    void delayed(Seek &seek, const std::string &why) override;
    void refused(Seek &seek, Cause cause) override;

    // Engine and clock.
    void publish(std::shared_ptr<Exports> exports);
    void update_gauges();
    void tick_places();
    void tick_connections();
    void explain(Connection &connection);

    // Connections.
    Connection *find(uint64_t connection);
    Connection &add_connection(uint64_t id);
    void open_session(Connection &connection, Session::Side side, const std::string &address);
    template <typename Message>
    Status send(uint64_t connection, const Message &message);
    // *said_bye: the failure is the peer's own word.
    Status take_frame(Connection &connection, std::span<const uint8_t> frame, bool *said_bye);
    Status take_room_message(Connection &connection, WireMessage &&message);
    void after_step(Connection &connection, Session::State before);
    void receive(Connection &connection, std::span<const uint8_t> bytes);
    void charge(Connection &connection);
    void remove(Connection &connection, const Cause &cause, const Status &why);
    void finish(Connection &connection, const Status &why, bool say_bye);
    bool is_told(const Connection &connection, const Status &why);
    void retire(Connection &connection);
    Status unused(const Connection &connection);

    // Places.
    Place &place_of(const std::string &address);
    void join(Place &place, Seek &seek);
    void dial(Place &place);
    void seek_again(Waiting &&rooms);
    void delay(Place &place, const std::string &why);
    void greeted(Connection &connection);
    void place_ready(Connection &connection);
    void place_refused(Connection &connection);
    void place_lost(Place &place, const Status &why);
    void refuse_at(Connection &connection, Seek &seek);
    void answer(Seek &seek, const LinkRef &link);
    void drop(Seek &seek);
    bool tell_gone(Connection &connection, Seek &seek);
    void forget_gone(uint64_t room_id, const Target &target);
    void tick_gone();
    Seek *waiter(uint64_t room);

    // Settles.
    void settle_on(Connection &connection);
    void settle_on(Connection &connection, const Settle &settle);
    void forget_settle(uint64_t room);
    void forget_settles(Place &place);
    void end_lost(Connection &connection, uint64_t lost);

    // Links.
    void make_link(Connection &connection);
    void lose_link(Connection &connection, const Cause &cause);
    void try_fence(uint64_t link, LinkRecord *record);
    void tick_fences();
    void link_released(uint64_t link);

    // Rooms.
    void on(SeekPeer &&message);
    void on(SettleRoom &&message);
    void on(ForgetPeer &&message);
    void on(SendOffer &&message);
    void on(SendNews &&message);
    void on(SendDrained &&message);
    void on(SendAbort &&message);
    void deliver(Connection &connection, OfferMessage &&message);
    void deliver(Connection &connection, StatusMessage &&message);
    void deliver(Connection &connection, AbortMessage &&message);
    void deliver(Connection &connection, DrainedMessage &&message);
    Connection *ready_connection(const LinkRef &link);
    void to_room(uint64_t room_id, ToShard &&message);
    template <typename Message>
    void to_all_shards(const Message &message);

    const ControlConfig config_;
    const HelloMessage hello_;
    ControlPort &port_;
    uint64_t now_;
    Alarm alarm_;
    ControlCounters counters_;
    Encoder encoder_;

    ExportsRef exports_;
    std::unordered_map<uint64_t, Connection> connections_;
    std::map<std::string, size_t, std::less<>> sources_; // how many connections were accepted from a host
    std::set<std::string> strangers_;                    // hosts whose nonsense, before any HELLO, is in the log
    size_t unready_bytes_ = 0;                           // of all connections
    uint64_t next_connection_ = 1;
    std::map<std::string, Place, std::less<>> places_; // elements stay where they are
    Seeks seeks_;
    std::map<std::pair<uint64_t, Target>, uint64_t> gone_; // handles of rooms that gave up before their sender heard
    std::unordered_map<uint64_t, Settle> settles_;         // by the room's handle
    std::map<uint64_t, LinkRecord> links_;                 // by connection
    std::shared_ptr<Releases> releases_;
    Finder finder_;
    Registration registration_;
    std::optional<Cause> closing_;
};

} // namespace kvf
