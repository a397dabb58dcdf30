// A prefill side and some decode sides, joined by transports inside this process and by control planes that carry what
// the shards say. Time passes when a test says so. What a sender tells its receivers is counted: one that hears of the
// end twice fails the test.
#pragma once

#include "shard_joint.h"
#include "shard_side.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kvf {

struct WorldSetup {
    WorldSetup();
    ShardConfig shard; // batches of few pages, so that a room is several operations
    uint32_t slots = 32;
};

class World {
  public:
    // One decode side for each transport, as Side::load takes them.
    explicit World(const std::vector<std::string> &transports = {"memory"}, const WorldSetup &setup = {});
    // Everything has to be over.
    ~World();
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    Side &prefill() { return *prefill_; }
    Side &decode(size_t index = 0) { return *connections_[index].side; }

    // Lets everything happen that does without time passing; as many polls as said while only operations are left.
    void run(int polls = 64);
    // What can happen now happens; then time passes, and what happens then.
    void pass(uint64_t ns);
    // Carries what was said without a turn for any shard's lanes.
    void carry();

    bool lasting = false; // answers are for all rooms with that target
    bool findable = true; // else rooms that look for their peer wait for find()
    std::vector<SeekPeer> seeks;
    std::vector<SettleRoom> settles; // of rooms whose connection is lost, until find()
    void find();

    // The connection breaks: what is on its wire is lost. With fence, the transport's holds at once.
    void lose(size_t decode, bool fence = true);
    void fence(size_t decode);
    void connect(size_t decode);
    LinkRef link_at_prefill(size_t decode = 0) const { return connections_[decode].at_prefill; }
    LinkRef link_at_decode(size_t decode = 0) const { return connections_[decode].at_decode; }

    // How many of the sender's words on the end went to that receiver.
    int told(RoomHandle receiver, size_t decode = 0) const;
    // The messages of one kind that were carried to prefill or decode, for tests that look at them or repeat them.
    std::vector<OfferCame> offers;
    std::vector<NewsCame> news;
    std::vector<AbortCame> aborts;

    // The bytes of prefill's pages `from` are in decode's pages `to`, in these layers.
    void expect_arrived(uint32_t group, const std::vector<uint32_t> &from, const std::vector<uint32_t> &to,
                        size_t decode = 0, uint32_t layer_begin = 0, uint32_t layer_end = UINT32_MAX);

  private:
    struct Connection {
        std::string transport;
        std::unique_ptr<Side> side;
        bool up = false;
        LinkRef at_prefill, at_decode; // null once lost and fenced
        RoutesRef routes;
    };
    struct Carried {
        size_t connection = 0;
        Side *to = nullptr;
        ToShard message;
    };

    void fence_link(const LinkRef &link);
    void collect(Side &side);
    bool carry_one();
    bool any_in_flight() const;

    size_t connection_of(const LinkRef &link) const;
    size_t connection_of(uint64_t id) const;
    size_t connection_of(const Side &decode) const;
    void put(size_t connection, Side &to, ToShard &&message);
    void said(Side &side, SeekPeer &&message);
    void said(Side &side, SettleRoom &&message);
    void said(Side &side, ForgetPeer &&message);
    void said(Side &side, SendOffer &&message);
    void said(Side &side, SendNews &&message);
    void said(Side &side, SendDrained &&message);
    void said(Side &side, SendAbort &&message);

    std::unique_ptr<Side> prefill_;
    std::vector<Connection> connections_;
    std::deque<Carried> wire_;
    std::map<std::pair<size_t, uint64_t>, int> told_; // by (decode side, receiver)
    std::map<std::pair<size_t, uint64_t>, int> drained_;
    uint64_t next_link_ = 100;
};

class ShardTest : public testing::Test {
  protected:
    static void SetUpTestSuite();
};

} // namespace kvf
