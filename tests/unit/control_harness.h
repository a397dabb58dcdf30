// Engines without threads: several Controls on one clock and one network in memory, where a test sees every message and
// decides what becomes of it.
#pragma once

#include "control/control.h"
#include "control_fake_transport.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

namespace kvf::test {

class Network;

// A tensor of its own region, `pages` pages of 4096 bytes.
Tensor plain_tensor(uint32_t group, uint32_t layer, uint64_t pages);

// One engine.
class Node final : public ControlPort {
  public:
    Node(Network &network, const ControlConfig &config, const std::string &address);
    ~Node() override;

    Control &control() { return *control_; }
    const ControlConfig &config() const { return config_; }
    const std::string &address() const { return address_; }

    void load(const std::string &transport);
    void unload(const std::string &transport) { control().remove_transport(transport); }
    // All tensors there are from now on, each in a region of its own.
    void set_tensors(std::vector<Tensor> tensors);

    void seek(uint64_t room, const Target &target);
    void seek(uint64_t room, const std::string &prefill) { seek(room, Target{prefill, KVF_DP_BY_ROOM, 0}); }

    // The first message of that type to any shard, taken out; none: a failure of the test, and an empty one.
    template <typename Message>
    Message take() {
        for (auto it = shards.begin(); it != shards.end(); ++it)
            if (auto *found = std::get_if<Message>(&*it)) {
                Message out = std::move(*found);
                shards.erase(it);
                return out;
            }
        missing(typeid(Message).name());
        return {};
    }
    template <typename Message>
    size_t count() const {
        size_t out = 0;
        for (const ToShard &message : shards)
            out += std::holds_alternative<Message>(message) ? 1 : 0;
        return out;
    }
    uint64_t counter(ControlCounter which) const { return control_->counters().get(which); }
    std::vector<uint64_t> open_connections() const;

    // ControlPort
    void dial(uint64_t connection, const std::string &address) override;
    void send(uint64_t connection, std::span<const uint8_t> frame) override;
    void close(uint64_t connection) override;
    void to_shard(uint32_t, ToShard &&message) override { shards.push_back(std::move(message)); }
    void ask_topology(uint64_t request, const std::string &server) override;
    void ask_rank(uint64_t request, const std::string &server, const RankPlace &place) override;
    void ask_dp_rank(uint64_t request, const std::string &server, uint64_t room_id) override;
    void register_rank(uint64_t request, const std::string &server, const RankRecord &record) override;
    void run_on_control(std::function<void()> fn) override;

    std::deque<ToShard> shards;                       // what shards were sent
    int topologies = 0, ranks = 0, registrations = 0; // asked for so far

  private:
    static void missing(const char *type);

    Network &network_;
    ControlConfig config_;
    std::string address_;
    std::map<std::string, std::shared_ptr<Transport>> transports_;
    std::vector<std::pair<Transport *, kvf_region *>> registered_;
    std::shared_ptr<const Layout> layout_;
    std::unique_ptr<Control> control_;
};

// A bootstrap server as far as a Control sees one.
struct FakeBootstrap {
    Status status; // of every answer
    Topology topology;
    std::map<RankPlace, RankAddress> ranks;
    std::map<uint64_t, uint32_t> rooms;
};

class Network {
  public:
    // Runs all that is under way, in order, until nothing is.
    void settle();
    // One event; false: there was none.
    bool step();
    // Moves the clock in small steps, settling in each.
    void advance_ms(uint64_t ms);

    // Sees every message before it is delivered; false: it is lost on the way.
    std::function<bool(const Node &from, const WireMessage &message)> on_message;

    // Ends the connection of a node as a dead peer's is ended; the other side hears of it.
    void cut(Node &node, uint64_t connection);
    // From here on the network does nothing for that connection; its other end is gone.
    void forget(Node &node, uint64_t connection);
    // Bytes to a node, on an own connection of hers.
    void inject(Node &to, uint64_t connection, const std::vector<uint8_t> &bytes);
    void inject(Node &to, uint64_t connection, const WireMessage &message);
    // A stranger's connection to a node.
    uint64_t strange_connection(Node &to) { return to.control().accepted("tcp://stranger"); }

    std::map<std::string, FakeBootstrap> bootstraps; // by "host:port"
    std::vector<std::string> sent;                   // names of messages, in order: "decode HELLO"
    uint64_t now = 1'000'000'000;

  private:
    friend class Node;

    struct End {
        Node *node = nullptr;
        uint64_t connection = 0;
        auto operator<=>(const End &) const = default;
    };

    void post(std::function<void()> event) { events_.push_back(std::move(event)); }
    void connect(End from, const std::string &address);
    void deliver(End from, std::vector<uint8_t> frame);
    void hang_up(End from);

    std::deque<std::function<void()>> events_;
    std::map<std::string, Node *> listening_;
    std::vector<Node *> nodes_;
    std::map<End, End> pairs_;
};

ControlConfig prefill_config(uint64_t instance);
ControlConfig decode_config(uint64_t instance);

// What most tests begin with: one engine of each role, with the transport "fake" and two layers each. At the end no
// peer and no key of a transport may be left.
class ControlTest : public testing::Test {
  protected:
    ControlTest();
    ~ControlTest() override;

    // Tensors and a transport for both.
    void equip();
    // A room of decode that has found its peer; the link.
    LinkRef connect(uint64_t room = 1);

    Network net;
    std::unique_ptr<Node> prefill, decode;
};

} // namespace kvf::test
