#include "shard_world.h"

#include <algorithm>
#include <cstdlib>

namespace kvf {

WorldSetup::WorldSetup() {
    shard.rank = 4;
    shard.batch.segments = 4;
    shard.batch.bytes = 256;
    shard.max_unclaimed = 16;
    shard.unclaimed_ns = 15 * kSecond;
}

void ShardTest::SetUpTestSuite() {
    setenv("KVF_PLUGIN_PATH", (std::string(KVF_TEST_FIXTURES) + "/good:" + KVF_TEST_PLUGINS).c_str(), 1);
}

World::World(const std::vector<std::string> &transports, const WorldSetup &setup) {
    prefill_ = std::make_unique<Side>("prefill", 1, 0, setup.shard, setup.slots);
    prefill_->fill(1);
    for (size_t i = 0; i < transports.size(); ++i) {
        ShardConfig config = setup.shard;
        config.rank = static_cast<int32_t>(70 + i);
        connections_.emplace_back();
        connections_[i].transport = transports[i];
        connections_[i].side = std::make_unique<Side>("decode" + std::to_string(i), 2 + i, 16, config, setup.slots);
        connect(i);
    }
}

World::~World() {
    run();
    offers.clear();
    aborts.clear();
    if (testing::Test::HasFailure())
        return;
    prefill_->expect_nothing_left();
    for (Connection &connection : connections_) {
        connection.side->expect_nothing_left();
        connection.side->expect_only_rooms_wrote();
        connection.at_prefill.reset();
        connection.at_decode.reset();
    }
}

// ------------------------------------------------------------------------------------------------------------
// connections

void World::connect(size_t decode) {
    Connection &connection = connections_[decode];
    Joint joint = join(*prefill_, *connection.side, connection.transport, next_link_);
    next_link_ += 2;
    connection.at_prefill = std::move(joint.at_prefill);
    connection.at_decode = std::move(joint.at_decode);
    connection.routes = std::move(joint.routes);
    connection.up = true;
}

void World::lose(size_t decode, bool fence_now) {
    Connection &connection = connections_[decode];
    connection.up = false;
    std::erase_if(wire_, [&](const Carried &carried) { return carried.connection == decode; });
    const Cause cause{KVF_ERR_PEER_LOST, -1, "the connection is gone"};
    prefill_->tell(LinkLost{connection.at_prefill, cause});
    connection.side->tell(LinkLost{connection.at_decode, cause});
    collect(*prefill_);
    collect(*connection.side);
    if (fence_now)
        fence(decode);
}

void World::fence(size_t decode) {
    Connection &connection = connections_[decode];
    EXPECT_TRUE(connection.at_prefill->transport->fence(connection.at_prefill->peer).ok());
    EXPECT_TRUE(connection.at_decode->transport->fence(connection.at_decode->peer).ok());
    prefill_->tell(LinkFenced{connection.at_prefill->id});
    connection.side->tell(LinkFenced{connection.at_decode->id});
    connection.at_prefill.reset();
    connection.at_decode.reset();
}

size_t World::connection_of(const LinkRef &link) const {
    const auto found = std::find_if(connections_.begin(), connections_.end(), [&](const Connection &connection) {
        return connection.at_prefill == link || connection.at_decode == link;
    });
    return static_cast<size_t>(found - connections_.begin());
}

size_t World::connection_of(uint64_t id) const {
    const auto found = std::find_if(connections_.begin(), connections_.end(), [&](const Connection &connection) {
        return connection.at_prefill && connection.at_prefill->id == id;
    });
    return static_cast<size_t>(found - connections_.begin());
}

size_t World::connection_of(const Side &decode) const {
    const auto found = std::find_if(connections_.begin(), connections_.end(),
                                    [&](const Connection &connection) { return connection.side.get() == &decode; });
    return static_cast<size_t>(found - connections_.begin());
}

// ---------------------------------------------------------------------------------------------------------------
// messages

void World::put(size_t connection, Side &to, ToShard &&message) {
    // What is said over a lost link goes nowhere.
    if (connection < connections_.size() && connections_[connection].up)
        wire_.push_back({connection, &to, std::move(message)});
}

void World::collect(Side &side) {
    std::vector<ToControl> all;
    all.swap(side.said);
    for (ToControl &message : all)
        std::visit([&](auto &&body) { said(side, std::forward<decltype(body)>(body)); }, std::move(message));
}

void World::said(Side &side, SeekPeer &&message) {
    const size_t connection = connection_of(side);
    if (findable && connections_[connection].up)
        wire_.push_back({connection, &side, PeerFound{message.room, connections_[connection].at_decode, lasting}});
    else
        seeks.push_back(std::move(message));
}

void World::said(Side &side, SettleRoom &&message) {
    const size_t connection = connection_of(side);
    if (!connections_[connection].up) {
        settles.push_back(std::move(message));
        return;
    }
    AbortCame came{connections_[connection].at_prefill->id,
                   side.instance,
                   message.room_id,
                   message.room.value,
                   true,
                   std::move(message.cause)};
    aborts.push_back(came);
    put(connection, *prefill_, std::move(came));
}

void World::said(Side &side, ForgetPeer &&message) {
    std::erase_if(settles, [&](const SettleRoom &settle) { return settle.room == message.room; });
    std::erase_if(seeks, [&](const SeekPeer &seek) { return seek.room == message.room; });
    if (!message.told)
        return;
    const size_t connection = connection_of(side);
    put(connection, *prefill_,
        AbortCame{connections_[connection].at_prefill->id, side.instance, message.room_id, message.room.value, false,
                  std::move(message.cause)});
}

void World::said(Side &side, SendOffer &&message) {
    const size_t connection = connection_of(message.link);
    ASSERT_LT(connection, connections_.size()) << side.name << " sends on a link that is gone";
    OfferCame came{connections_[connection].at_prefill,
                   connections_[connection].routes,
                   message.room_id,
                   message.room.value,
                   message.prefix_tokens,
                   std::move(message.lists)};
    offers.push_back(came);
    put(connection, *prefill_, std::move(came));
}

void World::said(Side &side, SendNews &&message) {
    const size_t connection = connection_of(message.link);
    ASSERT_LT(connection, connections_.size()) << side.name << " sends on a link that is gone";
    if (message.news.kind != RoomNews::kBegan)
        EXPECT_EQ(++told_[std::pair(connection, message.receiver)], 1)
            << "a receiver was told twice how its room ended";
    else
        EXPECT_FALSE(told_.contains(std::pair(connection, message.receiver))) << "a room began after its end";
    NewsCame came{connections_[connection].at_decode->id, message.room_id, message.receiver, std::move(message.news)};
    news.push_back(came);
    put(connection, *connections_[connection].side, std::move(came));
}

void World::said(Side &side, SendDrained &&message) {
    const size_t connection = connection_of(message.connection);
    ASSERT_LT(connection, connections_.size()) << side.name << " sends on a connection that is gone";
    EXPECT_EQ(++drained_[std::pair(connection, message.receiver)], 1)
        << "a receiver was told twice that nothing is in flight";
    put(connection, *connections_[connection].side, DrainedCame{prefill_->instance, message.room_id, message.receiver});
}

void World::said(Side &side, SendAbort &&message) {
    const size_t connection = connection_of(message.link);
    ASSERT_LT(connection, connections_.size()) << side.name << " sends on a link that is gone";
    AbortCame came{connections_[connection].at_prefill->id,
                   side.instance,
                   message.room_id,
                   message.room.value,
                   message.offered,
                   std::move(message.cause)};
    aborts.push_back(came);
    put(connection, *prefill_, std::move(came));
}

bool World::carry_one() {
    if (wire_.empty())
        return false;
    Carried carried = std::move(wire_.front());
    wire_.pop_front();
    carried.to->tell(std::move(carried.message));
    collect(*carried.to);
    return true;
}

void World::carry() {
    collect(*prefill_);
    for (Connection &connection : connections_)
        collect(*connection.side);
    while (carry_one()) {
    }
}

void World::find() {
    findable = true;
    std::vector<SeekPeer> waiting;
    waiting.swap(seeks);
    std::vector<SettleRoom> lost;
    lost.swap(settles);
    const auto side_of = [&](RoomHandle room) -> Side & {
        return *std::find_if(connections_.begin(), connections_.end(), [&](const Connection &connection) {
                    return connection.side->knows(room);
                })->side;
    };
    for (SeekPeer &seek : waiting)
        said(side_of(seek.room), std::move(seek));
    for (SettleRoom &settle : lost)
        said(side_of(settle.room), std::move(settle));
}

// -------------------------------------------------------------------------------------------------------------------
// time

bool World::any_in_flight() const {
    const auto busy = [](const Side &side) { return side.shard.counters().open_operations.load() != 0; };
    return busy(*prefill_) || std::any_of(connections_.begin(), connections_.end(),
                                          [&](const Connection &connection) { return busy(*connection.side); });
}

void World::run(int polls) {
    for (int idle = 0; idle <= polls;) {
        carry();
        bool more = prefill_->advance();
        for (Connection &connection : connections_)
            more = connection.side->advance() || more;
        more = prefill_->look_at_fences() || more;
        collect(*prefill_);
        for (Connection &connection : connections_)
            collect(*connection.side);
        if (more || !wire_.empty())
            continue;
        if (!any_in_flight())
            return;
        ++idle;
    }
}

void World::pass(uint64_t ns) {
    run();
    prefill_->now += ns;
    for (Connection &connection : connections_)
        connection.side->now += ns;
    run();
}

int World::told(RoomHandle receiver, size_t decode) const {
    const auto found = told_.find({decode, receiver.value});
    return found == told_.end() ? 0 : found->second;
}

void World::expect_arrived(uint32_t group, const std::vector<uint32_t> &from, const std::vector<uint32_t> &to,
                           size_t decode, uint32_t layer_begin, uint32_t layer_end) {
    ASSERT_EQ(from.size(), to.size());
    Side &side = *connections_[decode].side;
    std::string missing;
    for (size_t i = 0; i < prefill_->layout.tensors.size(); ++i) {
        const Tensor &tensor = prefill_->layout.tensors[i];
        if (tensor.name.group != group || tensor.name.layer < layer_begin || tensor.name.layer >= layer_end)
            continue;
        for (size_t at = 0; at < from.size(); ++at)
            if (side.bytes(side.layout.tensors[i], to[at]) != prefill_->bytes(tensor, from[at]))
                missing += text(" %u.%u:%u->%u", tensor.name.layer, tensor.name.part, from[at], to[at]);
    }
    EXPECT_EQ(missing, "") << "layer.part:from->to";
}

} // namespace kvf
