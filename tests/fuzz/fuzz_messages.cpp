// Strangers that say anything in any order to a Control, whose own rooms come and go meanwhile. The first byte is the
// engine's role, and whether it is closed before everybody hangs up; then records follow: [what][length][that many
// bytes].
#include "../unit/control_fake_transport.h"
#include "control/control.h"
#include "engine_port.h"
#include "holds.h"
#include "input.h"
#include "messages_input.h"
#include "stranger.h"

#include <optional>

namespace {

using namespace kvf;
using fuzz::common_layout;
using fuzz::EnginePort;
using fuzz::holds;
using fuzz::Input;
using fuzz::Step;

constexpr uint32_t kRooms = 8;
constexpr const char *kPrefill[] = {"tcp://10.0.0.7:1", "tcp://10.0.0.8:1", "10.0.0.9:8998", "nonsense"};

const std::shared_ptr<Transport> &transport() {
    static const std::shared_ptr<Transport> it = test::open_fake("fake", 1);
    return it;
}

class Fuzzed {
  public:
    explicit Fuzzed(uint32_t role) : layout_(std::make_shared<Layout>(common_layout())) {
        test::fake().reset();
        ControlConfig config;
        config.instance = 1;
        config.role = role;
        config.name = "fuzzed";
        config.rank = 3;
        config.shards = 2;
        config.heartbeat_ns = 5000 * kNanosPerMilli;
        config.bootstrap = (role & KVF_ROLE_PREFILL) != 0 ? "10.0.0.5:8998" : "";
        control_.emplace(config, (role & KVF_ROLE_PREFILL) != 0 ? "tcp://10.0.0.1:1" : "", port_, now_);
        register_regions();
        holds(control_->add_transport(transport(), {}), "a transport can be added");
        set_layout();
    }

    ~Fuzzed() {
        if (closes)
            control_->shutdown({KVF_ERR_CLOSED, 3, "the engine is closed"});
        end();
        control_.reset();
        for (kvf_region *region : regions_)
            transport()->deregister_region(region);
        holds(test::fake().peers == 0 && test::fake().keys == 0, "the transport has no peers and keys left");
    }

    bool closes = false; // at the end

    void step(Step what, Input in);

    void check() {
        port_.run_later();
        holds(gauge(ControlCounter::open_connections) == port_.open.size(), "a connection stands or was closed");
    }

  private:
    uint64_t gauge(ControlCounter which) const { return control_->counters().get(which); }
    void say(std::span<const uint8_t> bytes);
    void say(const WireMessage &message);
    void say_damaged(Input in);
    void connect(Input *in);
    void choose(Input *in);
    void close(Input *in);
    void room_step(Input *in);
    void change_exports(Input *in);
    void answer(Input *in);
    void break_transport(Input *in);
    void end();

    void release() {
        port_.found.clear();
        port_.offered.clear();
        port_.lost.clear();
    }
    void register_regions() {
        for (const MemoryRegion &memory : layout_->regions) {
            kvf_region_params params{};
            params.length = memory.length;
            holds(transport()->register_region(params, &regions_.emplace_back()), "regions can be registered");
        }
    }
    void set_layout() {
        const Status set =
            control_->set_layout(layout_, loaded_ ? std::vector<TransportRegions>{{transport(), regions_}}
                                                  : std::vector<TransportRegions>{});
        holds(set, "a layout can be set");
    }
    LinkRef some(const std::set<LinkRef> &links, Input *in) const {
        if (links.empty())
            return nullptr;
        return *std::next(links.begin(), static_cast<ptrdiff_t>(in->byte() % links.size()));
    }

    uint64_t now_ = 1'000'000'000;
    EnginePort port_;
    std::shared_ptr<Layout> layout_;
    std::vector<kvf_region *> regions_;
    bool loaded_ = true;
    std::optional<Control> control_;
    uint64_t connection_ = 0;    // that the stranger speaks on
    std::set<uint64_t> settled_; // rooms that have asked for that
};

// ------------------------------------------------------------------------------------------------------- connections

void Fuzzed::say(std::span<const uint8_t> bytes) {
    // At the end of a buffer of its own.
    const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
    control_->received(connection_, exact);
}

void Fuzzed::say(const WireMessage &message) {
    Encoder encoder;
    std::span<const uint8_t> frame;
    if (encoder.encode(message, &frame).ok())
        say(frame);
}

// A message as it should be, with some of its bytes replaced.
void Fuzzed::say_damaged(Input in) {
    Encoder encoder;
    std::span<const uint8_t> frame;
    if (!encoder.encode(fuzz::stranger_says(in.byte(), Input({})), &frame).ok())
        return;
    std::vector<uint8_t> bytes(frame.begin(), frame.end());
    while (!in.empty()) {
        const size_t at = in.number() % bytes.size();
        bytes[at] = in.byte();
    }
    say(bytes);
}

void Fuzzed::connect(Input *in) {
    if (in->below(2) == 1 && !port_.dialed.empty()) {
        connection_ = port_.dialed.front();
        port_.dialed.erase(port_.dialed.begin());
        if (in->below(4) == 3) {
            port_.open.erase(connection_);
            return control_->dial_failed(connection_, fail(KVF_ERR_PEER_LOST, "nobody listens"));
        }
        return control_->connected(connection_);
    }
    if (const uint64_t id = control_->accepted("tcp://stranger"); id != 0) {
        holds(port_.open.insert(id).second, "a connection's number is not used again");
        connection_ = id;
    }
}

void Fuzzed::choose(Input *in) {
    if (!port_.open.empty())
        connection_ = *std::next(port_.open.begin(), static_cast<ptrdiff_t>(in->byte() % port_.open.size()));
}

void Fuzzed::close(Input *in) {
    if (port_.open.erase(connection_) == 0)
        return;
    std::erase(port_.dialed, connection_);
    control_->closed(connection_, fail(in->below(2) == 0 ? KVF_ERR_PEER_LOST : KVF_ERR_INVALID, "gone"));
}

// --------------------------------------------------------------------------------------------------------- own rooms

void Fuzzed::room_step(Input *in) {
    const uint32_t what = in->below(7);
    const uint64_t id = 1 + in->below(kRooms);
    const RoomHandle room{id};
    const Cause cause{KVF_ERR_ABORTED, 3, "given up"};
    const LinkRef link = some(what == 6 ? port_.lost : what == 3 ? port_.offered : port_.found, in);
    switch (what) {
        case 0:
            return control_->handle(
                SeekPeer{room, id, Target{kPrefill[in->below(4)], in->below(3), static_cast<uint32_t>(in->number())}});
        case 1:
            settled_.erase(id);
            return control_->handle(ForgetPeer{room, id, cause, in->below(2) == 0});
        case 2:
            return control_->handle(SendOffer{link, id, room, 0, {{0, {1, 2}}}});
        case 3:
            return control_->handle(SendNews{link, id, in->number(), {}});
        case 4:
            return control_->handle(SendDrained{in->number(), id, in->number()});
        case 5:
            return control_->handle(SendAbort{link, id, room, in->below(2) == 1, cause});
        default:
            if (link && settled_.insert(id).second)
                control_->handle(SettleRoom{link, id, room, cause});
    }
}

void Fuzzed::change_exports(Input *in) {
    switch (in->below(3)) {
        case 0:
            layout_ = std::make_shared<Layout>(*layout_);
            ++layout_->version;
            layout_->tensors[0].page_count = 1 + in->number() % fuzz::kTensorPages;
            return set_layout();
        case 1:
            control_->remove_transport("fake");
            loaded_ = false;
            return;
        default:
            loaded_ = control_->add_transport(transport(), regions_).ok() || loaded_;
    }
}

void Fuzzed::answer(Input *in) {
    if (port_.inquiries.empty())
        return;
    const EnginePort::Inquiry asked = port_.inquiries.front();
    port_.inquiries.pop_front();
    const uint32_t outcome = in->below(4);
    const Status status = outcome == 1   ? fail(KVF_ERR_AGAIN, "not all ranks have registered")
                          : outcome == 2 ? fail(KVF_ERR_BOOTSTRAP, "refused")
                                         : Status();
    const auto number = [&] { return static_cast<uint32_t>(in->number()); };
    Topology topology;
    switch (asked.kind) {
        case EnginePort::Inquiry::topology:
            topology.follow_bootstrap_room = in->below(2) == 0;
            for (uint32_t *size : {&topology.sizes.dp, &topology.sizes.cp, &topology.sizes.tp, &topology.sizes.pp})
                *size = 1 + number() % kMaxRanks;
            return control_->topology_came(asked.request, status, topology);
        case EnginePort::Inquiry::rank:
            return control_->rank_came(asked.request, status, {in->text(in->below(20)), 1});
        case EnginePort::Inquiry::dp_rank:
            return control_->dp_rank_came(asked.request, status,
                                          outcome == 3 ? std::nullopt : std::optional<uint32_t>(number()));
        default:
            return control_->registered(asked.request, status);
    }
}

void Fuzzed::break_transport(Input *in) {
    constexpr const char *kOperations[] = {"peer_create", "peer_connect", "import_key", "fence"};
    constexpr int kOutcomes[] = {KVF_OK, KVF_ERR_UNREACHABLE, KVF_ERR_UNSUPPORTED, KVF_ERR_AGAIN};
    const std::pair<uint64_t, std::string> operation{1, kOperations[in->below(4)]};
    if (const int outcome = kOutcomes[in->below(4)]; outcome != KVF_OK)
        test::fake().failures[operation] = outcome;
    else
        test::fake().failures.erase(operation);
}

void Fuzzed::step(Step what, Input in) {
    switch (what) {
        case Step::bytes:
            return say(in.rest());
        case Step::damaged:
            return say_damaged(in);
        case Step::connect:
            return connect(&in);
        case Step::choose:
            return choose(&in);
        case Step::close:
            return close(&in);
        case Step::time:
            now_ += in.number() % 20'000 * kNanosPerMilli;
            return control_->tick(now_);
        case Step::room:
            return room_step(&in);
        case Step::exports:
            return change_exports(&in);
        case Step::answer:
            return answer(&in);
        case Step::transport:
            return break_transport(&in);
        case Step::release:
            return release();
        default:
            return say(fuzz::stranger_says(static_cast<size_t>(what), in));
    }
}

// Everybody hangs up and every room gives up; nobody uses a link any more.
void Fuzzed::end() {
    test::fake().failures.clear();
    for (const uint64_t connection : std::set<uint64_t>(port_.open)) {
        if (port_.open.erase(connection) != 0) // it may have been ended by what another's end led to
            control_->closed(connection, fail(KVF_ERR_PEER_LOST, "gone"));
        check();
    }
    for (uint64_t id = 1; id <= kRooms; ++id)
        control_->handle(ForgetPeer{RoomHandle{id}, id, {KVF_ERR_ABORTED, 3, "given up"}, false});
    release();
    check();
    holds(gauge(ControlCounter::open_connections) == 0, "no connection is left");
    holds(gauge(ControlCounter::open_seeks) == 0, "no seek is left");
    holds(gauge(ControlCounter::open_settles) == 0, "no settle is left");
    holds(gauge(ControlCounter::open_links) == 0, "no link is left");
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    kvf::fuzz::quiet();
    transport();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input({data, size});
    const uint32_t first = input.below(6);
    Fuzzed fuzzed(1 + first % 3);
    fuzzed.closes = first >= 3;
    while (!input.empty()) {
        const auto what = static_cast<Step>(input.below(static_cast<uint32_t>(Step::count)));
        fuzzed.step(what, input.record());
        fuzzed.check();
    }
    return 0;
}
