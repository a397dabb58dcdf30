// One connection to another engine: the handshake, its refusal or its routes, and whether the peer still answers. Sans
// I/O: messages and the clock come in, messages go out through a function. Rooms' own messages pass by here only for
// the check that they may come now.
#pragma once

#include "base/clock.h"
#include "control/exports.h"
#include "control/peer_handle.h"
#include "control/wire_messages.h"
#include "room/link.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvf {

class Session {
  public:
    // Fixed for a connection: who dials receives rooms, who accepts sends them.
    enum class Side : uint8_t { dialer, acceptor };
    enum class State : uint8_t {
        hello,    // the peer's HELLO has not come
        layout,   // one of the two LAYOUTs is missing
        regions,  // the layouts fit, the peer's REGIONS have not come
        choosing, // SELECT and READY go to and fro
        ready,    // rooms may begin
        refused,  // they may not; the connection stays for ABORTs
    };
    // Fails when the message does not fit into a frame.
    using SendFn = std::function<Status(const WireMessage &)>;

    // self is this engine's HELLO on this connection; address the peer's, for sentences.
    Session(Side side, HelloMessage self, std::string address, ExportsRef exports, uint64_t heartbeat_ns, uint64_t now,
            SendFn send);

    // The dialer's first step.
    Status start();

    // One message that is not a room's. A failure ends the connection: KVF_ERR_PROTOCOL, KVF_ERR_UNSUPPORTED and
    // KVF_ERR_INVALID (the two can't work together), or what the peer's BYE says.
    Status handle(WireMessage &&message);

    // Whether a room's message may come now. KVF_ERR_PROTOCOL.
    Status admit(const WireMessage &message);

    // Bytes came from the peer, be they a whole message or not.
    void heard(uint64_t now);

    // What this engine shows has changed.
    Status exports_changed(ExportsRef exports);

    // Asks a silent peer, gives up one that stays silent (KVF_ERR_PEER_SILENT) or does not say HELLO.
    Status tick(uint64_t now);
    uint64_t next_deadline() const;

    Side side() const { return side_; }
    State state() const { return state_; }
    bool greeted() const { return state_ != State::hello; }
    // The peer's; of meaning once greeted.
    const HelloMessage &peer() const { return peer_hello_; }
    // "decode-0 (tcp://127.0.0.1:4000)"
    const std::string &peer_name() const { return peer_name_; }
    // Why not, in state refused.
    const Cause &refusal() const { return refusal_; }
    // In state refused: one of the layouts or our transports are others now, or something was wanting that may be there
    // later; a new connection may fare better.
    bool worth_another_try() const { return changed_ || wanting_; }
    // What it waits for, for those who wait with it; "" when that is nothing to speak of.
    std::string waits_for() const;
    // The chosen transport's peer, in state ready.
    const std::shared_ptr<PeerHandle> &handle() const { return handle_; }
    // Acceptor in state ready: where rooms that begin now go.
    const RoutesRef &routes() const { return routes_; }
    // The peer asks that no new rooms begin.
    bool retiring() const { return retiring_; }
    // Both layouts are known and the rest is to be agreed on, which takes no waiting for anybody's tensors.
    bool agreeing() const { return state_ == State::regions || state_ == State::choosing; }
    uint32_t missed() const { return asked_ > 0 ? asked_ - 1 : 0; }

  private:
    Status on(HelloMessage &&hello);
    Status on(LayoutMessage &&told);
    Status on(RegionsMessage &&regions);
    Status on(SelectMessage &&select);
    Status on(ReadyMessage &&ready);
    Status on(HeartbeatMessage &&heartbeat);
    Status on(ByeMessage &&bye);
    template <typename RoomMessage>
    Status on(RoomMessage &&message);

    Status check_hello(const HelloMessage &hello) const;
    Status out_of_order(const char *message) const;

    Status send_layout();
    Status pair_layouts();
    Status compare_and_go_on();
    Status layout_update(LayoutMessage &&told);
    Status regions_update(RegionsMessage &&regions);
    Status try_next_transport();
    Status try_transport(const ExportedTransport &local, Bytes *blob);
    Status connect_dialer(const Bytes &blob);
    Status dialer_tries(const SelectMessage &select, Bytes *blob);
    Status finish_acceptor(const ReadyMessage &ready);
    Status refuse_transports();
    void become_ready();
    void refuse(int code, std::string sentence);
    void refuse_by(const std::vector<Refusal> &refusals);
    Status tell_update();
    void rebuild_routes();
    const TransportKeys *peer_keys(const std::string &transport) const;

    const Side side_;
    const HelloMessage self_;
    const uint64_t heartbeat_ns_;
    const uint64_t hello_by_;
    const SendFn send_;

    State state_ = State::hello;
    std::string peer_name_;
    HelloMessage peer_hello_;
    Cause refusal_;
    bool changed_ = false;
    bool wanting_ = false; // descriptors or memory, on either side
    bool retiring_ = false;

    ExportsRef exports_;                  // the newest
    ExportsRef paired_;                   // those that the handshake is about
    std::vector<ExportsRef> told_;        // the dialer's, sent before the acceptor's LAYOUT came
    uint64_t told_version_ = 0;           // of our layout, sent last
    std::optional<LayoutMessage> theirs_; // the peer's newest, or the paired one during the handshake
    std::optional<RegionsMessage> keys_;  // the peer's

    size_t candidate_ = 0; // acceptor: the next of paired_'s transports
    std::vector<Refusal> refusals_;
    std::shared_ptr<PeerHandle> handle_;
    RoutesRef routes_;

    uint64_t agree_by_ = kNever; // while agreeing
    uint64_t heard_at_;
    uint32_t asked_ = 0;    // pings since the peer was heard
    uint64_t asked_at_ = 0; // the last; a miss is counted from there, as this process may have been stopped itself
};

} // namespace kvf
