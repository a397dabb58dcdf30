// The decode side of a room: finds its peer, offers its pages, is told how it ended.
#pragma once

#include "room/room.h"

namespace kvf {

class ReceiverRoom : public Room {
  public:
    // known: the peer, where the shard knows it already; else it is sought.
    ReceiverRoom(OpenReceiver &&open, LinkRef known, const RoomContext &context);

    void found(LinkRef link, const RoomContext &context);
    void delayed(std::string why, const RoomContext &context);
    void refused(Cause cause, const RoomContext &context);
    void accept(Accept &&accept, const RoomContext &context);
    // False when the news does not fit what this room has asked for; then it is dropped.
    bool news(const RoomNews &news, const RoomContext &context);
    bool drained(const RoomContext &context);

    // This side gives up: by its caller, by a deadline.
    void give_up(Cause cause, const RoomContext &context);
    void deadline_passed(const RoomContext &context);
    void lost(const Cause &cause, const RoomContext &context);
    void fenced(const RoomContext &context);

    const LinkRef &link() const { return link_; }
    // Quiesced, it needs its peer no longer, however long its handle is kept.
    void let_go() { link_.reset(); }
    const Target &target() const { return target_; }

  private:
    void offer(const RoomContext &context);
    bool conclude(Cause cause, bool drained, const RoomContext &context);

    const Target target_;
    std::string delay_; // why the peer is not found yet
    LinkRef link_;
    std::vector<PageRuns> lists_;
    bool accepted_ = false;
    bool offered_ = false;  // the peer may write, until it says otherwise
    bool settling_ = false; // it was lost before it said so, and is asked again by control
};

} // namespace kvf
