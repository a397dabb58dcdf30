#include "control_harness.h"

#include "control/bootstrap_address.h"

#include <algorithm>
#include <cstdlib>

namespace kvf::test {

Tensor plain_tensor(uint32_t group, uint32_t layer, uint64_t pages) {
    Tensor tensor;
    tensor.name = {group, layer, KVF_PART_K};
    tensor.dtype = 1;
    tensor.page_count = pages;
    tensor.page_bytes = tensor.page_stride = tensor.unit_bytes = 4096;
    return tensor;
}

ControlConfig prefill_config(uint64_t instance) {
    ControlConfig config;
    config.instance = instance;
    config.role = KVF_ROLE_PREFILL;
    config.name = "prefill-" + std::to_string(instance);
    config.rank = static_cast<uint32_t>(instance);
    config.shards = 2;
    config.heartbeat_ns = 5000 * kNanosPerMilli;
    return config;
}

ControlConfig decode_config(uint64_t instance) {
    ControlConfig config = prefill_config(instance);
    config.role = KVF_ROLE_DECODE;
    config.name = "decode-" + std::to_string(instance);
    return config;
}

// --------------------------------------------------------------------------------------------------------------- node

Node::Node(Network &network, const ControlConfig &config, const std::string &address)
    : network_(network), config_(config), address_(address), layout_(std::make_shared<const Layout>()) {
    control_ = std::make_unique<Control>(config, address, *this, network.now);
    network.nodes_.push_back(this);
    if (!address.empty())
        network.listening_[address] = this;
}

Node::~Node() {
    shards.clear();
    std::erase(network_.nodes_, this);
    std::erase_if(network_.listening_, [this](const auto &it) { return it.second == this; });
    std::vector<uint64_t> mine;
    for (const auto &[end, other] : network_.pairs_)
        if (end.node == this)
            mine.push_back(end.connection);
    for (const uint64_t connection : mine)
        network_.hang_up({this, connection});
    control_.reset();
    for (const auto &[transport, region] : registered_)
        transport->deregister_region(region);
}

void Node::missing(const char *type) {
    ADD_FAILURE() << "no message of type " << type;
}

void Node::load(const std::string &name) {
    std::shared_ptr<Transport> &transport = transports_[name];
    transport = open_fake(name, config_.instance);
    std::vector<kvf_region *> regions;
    for (const MemoryRegion &memory : layout_->regions) {
        kvf_region_params params{};
        params.length = memory.length;
        ASSERT_TRUE(transport->register_region(params, &regions.emplace_back()).ok());
        registered_.emplace_back(transport.get(), regions.back());
    }
    const Status status = control_->add_transport(transport, regions);
    ASSERT_TRUE(status.ok()) << status.sentence();
}

void Node::set_tensors(std::vector<Tensor> tensors) {
    auto layout = std::make_shared<Layout>();
    layout->version = layout_->version + 1;
    layout->tensors = std::move(tensors);
    std::ranges::sort(layout->tensors, {}, &Tensor::name);
    for (Tensor &tensor : layout->tensors) {
        tensor.region = static_cast<uint32_t>(layout->regions.size());
        layout->regions.emplace_back().length = tensor.region_offset + tensor.span();
    }
    std::vector<TransportRegions> all;
    for (const auto &[name, transport] : transports_) {
        TransportRegions &regions = all.emplace_back();
        regions.transport = transport;
        for (const MemoryRegion &memory : layout->regions) {
            kvf_region_params params{};
            params.length = memory.length;
            ASSERT_TRUE(transport->register_region(params, &regions.regions.emplace_back()).ok());
            registered_.emplace_back(transport.get(), regions.regions.back());
        }
    }
    layout_ = layout;
    const Status status = control_->set_layout(layout, all);
    ASSERT_TRUE(status.ok()) << status.sentence();
}

void Node::seek(uint64_t room, const Target &target) {
    control_->handle(SeekPeer{RoomHandle{room}, room, target});
}

std::vector<uint64_t> Node::open_connections() const {
    std::vector<uint64_t> out;
    for (const auto &[end, other] : network_.pairs_)
        if (end.node == this)
            out.push_back(end.connection);
    return out;
}

void Node::dial(uint64_t connection, const std::string &address) {
    network_.connect({this, connection}, address);
}

void Node::send(uint64_t connection, std::span<const uint8_t> frame) {
    network_.deliver({this, connection}, {frame.begin(), frame.end()});
}

void Node::close(uint64_t connection) {
    network_.hang_up({this, connection});
}

void Node::run_on_control(std::function<void()> fn) {
    network_.post(std::move(fn));
}

void Node::ask_topology(uint64_t request, const std::string &server) {
    ++topologies;
    network_.post([this, request, server] {
        const FakeBootstrap &bootstrap = network_.bootstraps[server];
        control_->topology_came(request, bootstrap.status, bootstrap.topology);
    });
}

void Node::ask_rank(uint64_t request, const std::string &server, const RankPlace &place) {
    ++ranks;
    network_.post([this, request, server, place] {
        const FakeBootstrap &bootstrap = network_.bootstraps[server];
        const auto rank = bootstrap.ranks.find(place);
        if (bootstrap.status.ok() && rank == bootstrap.ranks.end())
            return control_->rank_came(request, fail(KVF_ERR_BOOTSTRAP, "no such rank"), {});
        control_->rank_came(request, bootstrap.status, bootstrap.status.ok() ? rank->second : RankAddress{});
    });
}

void Node::ask_dp_rank(uint64_t request, const std::string &server, uint64_t room_id) {
    network_.post([this, request, server, room_id] {
        const FakeBootstrap &bootstrap = network_.bootstraps[server];
        const auto room = bootstrap.rooms.find(room_id);
        control_->dp_rank_came(request, bootstrap.status,
                               room != bootstrap.rooms.end() ? std::optional(room->second) : std::nullopt);
    });
}

void Node::register_rank(uint64_t request, const std::string &server, const RankRecord &record) {
    ++registrations;
    network_.post([this, request, server, record] {
        FakeBootstrap &bootstrap = network_.bootstraps[server];
        if (bootstrap.status.ok()) {
            bootstrap.topology = record.topology;
            bootstrap.ranks[record.place] = record.address;
        }
        control_->registered(request, bootstrap.status);
    });
}

// ------------------------------------------------------------------------------------------------------------ network

bool Network::step() {
    if (events_.empty())
        return false;
    const auto event = std::move(events_.front());
    events_.pop_front();
    event();
    return true;
}

void Network::settle() {
    for (Node *node : nodes_)
        node->control().tick(now);
    while (step()) {
    }
}

void Network::advance_ms(uint64_t ms) {
    constexpr uint64_t kStep = 50;
    for (uint64_t gone = 0; gone < ms; gone += kStep) {
        now += std::min(kStep, ms - gone) * kNanosPerMilli;
        settle();
    }
}

void Network::connect(End from, const std::string &address) {
    post([this, from, address] {
        const auto there = listening_.find(address);
        if (there == listening_.end())
            return from.node->control().dial_failed(from.connection,
                                                    fail(KVF_ERR_PEER_LOST, "%s: nobody listens", address.c_str()));
        const uint64_t id = there->second->control().accepted("tcp://dialer");
        const End to{there->second, id};
        if (id == 0)
            return from.node->control().dial_failed(from.connection, fail(KVF_ERR_PEER_LOST, "too many"));
        pairs_[from] = to;
        pairs_[to] = from;
        from.node->control().connected(from.connection);
    });
}

void Network::deliver(End from, std::vector<uint8_t> frame) {
    WireMessage message;
    const Status status = decode(frame, &message);
    ASSERT_TRUE(status.ok()) << status.sentence();
    const std::string role = from.node->config().role == KVF_ROLE_PREFILL ? "prefill " : "decode ";
    sent.push_back(role + kMessageNames[message.index()]);
    if (on_message && !on_message(*from.node, message))
        return;
    const auto to = pairs_.find(from);
    if (to == pairs_.end())
        return;
    post([this, from, to = to->second, frame = std::move(frame)] {
        if (pairs_.contains(to))
            to.node->control().received(to.connection, frame);
    });
}

void Network::hang_up(End from) {
    const auto it = pairs_.find(from);
    if (it == pairs_.end())
        return;
    const End to = it->second;
    pairs_.erase(it);
    post([this, to] {
        if (pairs_.erase(to) != 0)
            to.node->control().closed(to.connection, fail(KVF_ERR_PEER_LOST, "the peer closed it"));
    });
}

void Network::cut(Node &node, uint64_t connection) {
    hang_up({&node, connection});
    node.control().closed(connection, fail(KVF_ERR_PEER_LOST, "cut"));
}

void Network::forget(Node &node, uint64_t connection) {
    const auto it = pairs_.find({&node, connection});
    if (it == pairs_.end())
        return;
    pairs_.erase(it->second);
    pairs_.erase(it);
}

void Network::inject(Node &to, uint64_t connection, const std::vector<uint8_t> &bytes) {
    to.control().received(connection, bytes);
}

void Network::inject(Node &to, uint64_t connection, const WireMessage &message) {
    Encoder encoder;
    std::span<const uint8_t> frame;
    ASSERT_TRUE(encoder.encode(message, &frame).ok());
    to.control().received(connection, frame);
}

// --------------------------------------------------------------------------------------------------------------- test

ControlTest::ControlTest() {
    fake().reset();
    prefill = std::make_unique<Node>(net, prefill_config(1), "tcp://10.0.0.1:1000");
    decode = std::make_unique<Node>(net, decode_config(2), "");
}

ControlTest::~ControlTest() {
    net.on_message = nullptr;
    for (std::unique_ptr<Node> *node : {&prefill, &decode})
        if (*node)
            (*node)->shards.clear();
    net.settle();
    decode.reset();
    net.settle();
    prefill.reset();
    net.settle();
    EXPECT_EQ(fake().peers, 0);
    EXPECT_EQ(fake().keys, 0);
}

void ControlTest::equip() {
    for (Node *node : {prefill.get(), decode.get()}) {
        node->load("fake");
        node->set_tensors({plain_tensor(0, 0, 100), plain_tensor(0, 1, 100)});
    }
}

LinkRef ControlTest::connect(uint64_t room) {
    decode->seek(room, prefill->address());
    net.settle();
    const auto answer = decode->take<PeerFound>();
    EXPECT_EQ(answer.room.value, room);
    return answer.link;
}

} // namespace kvf::test
