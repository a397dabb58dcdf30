// Peers that say what they like of rooms to a shard, their own and others', while callers open, fill and end rooms.
// Records: [what][length][that many bytes].
#include "holds.h"
#include "input.h"
#include "shard_input.h"
#include "shard_peers.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

namespace {

using namespace kvf;
using fuzz::Act;
using fuzz::Input;
using fuzz::kPeers;

constexpr uint32_t kIds = 4;
constexpr uint32_t kMostPagesNamed = 4096; // in one offer; decode() has a bound of its own

// What the sides of the shards' tests find wrong ends the process.
class EndOnFailure : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult &result) override {
        if (!result.failed())
            return;
        std::fprintf(stderr, "%s\n", result.message());
        std::abort();
    }
};

class Fuzzed {
  public:
    void act(Act what, Input in);

  private:
    struct Open {
        RoomHandle room;
        bool accepted = false, last_sent = false;
    };
    using Rooms = std::map<uint64_t, Open>; // by id

    Open *live(Side &side, Rooms *rooms, uint64_t id) {
        const auto found = rooms->find(id);
        return found != rooms->end() && side.knows(found->second.room) ? &found->second : nullptr;
    }
    static void end(Side &side, RoomHandle room, uint32_t how) {
        if (how == 0)
            side.abort(room);
        else if (how == 1)
            (void)side.close(room);
        else
            side.close_deferred(room);
    }
    // Of pages that there are, as the engine has checked them.
    static std::vector<PageList> own_pages(Input *in);
    static std::vector<PageRuns> any_pages(Input *in);
    // The token of a receiver of any peer, or none's.
    uint64_t token(Input *in);

    void open_sender(Input *in);
    void send(Input *in);
    void open_receiver(size_t peer, Input *in);
    void accept(size_t peer, Input *in);
    void offer(size_t peer, Input *in);
    void abort(size_t peer, Input *in);
    void news(size_t peer, Input *in);
    void answer(size_t peer, Input *in);
    void end_room(Act what, Input *in);
    void of_peer(Act what, Input *in);

    fuzz::Peers peers_;
    Rooms senders_;
    std::array<Rooms, kPeers> receivers_;
};

std::vector<PageList> Fuzzed::own_pages(Input *in) {
    std::vector<PageList> out;
    for (const uint32_t group : {kKv, kAux}) {
        PageList list{group, {}};
        for (uint32_t count = in->below(7); count != 0; --count)
            list.pages.push_back(in->below(group == kKv ? 32 : 8));
        if (!list.pages.empty())
            out.push_back(std::move(list));
    }
    return out;
}

std::vector<PageRuns> Fuzzed::any_pages(Input *in) {
    std::map<uint32_t, PageRuns> out; // none twice, as decode() has it
    uint64_t pages = 0;
    for (uint32_t lists = in->below(4); lists != 0; --lists) {
        const auto group = static_cast<uint32_t>(in->number());
        PageRuns &runs = out.try_emplace(group, group, std::vector<uint32_t>()).first->second;
        for (uint32_t count = in->below(5); count != 0; --count) {
            const auto first = static_cast<uint32_t>(in->number());
            const uint64_t most = uint64_t{UINT32_MAX} - first + 1;
            const auto length = static_cast<uint32_t>(std::min<uint64_t>(1 + in->number() % kMostPagesNamed, most));
            if ((pages += length) <= kMostPagesNamed)
                runs.append(first, length);
        }
    }
    std::vector<PageRuns> lists;
    for (auto &[group, runs] : out)
        lists.push_back(std::move(runs));
    return lists;
}

uint64_t Fuzzed::token(Input *in) {
    const uint32_t which = in->below(kPeers + 1);
    if (which == kPeers)
        return in->number();
    const auto found = receivers_[which].find(in->below(kIds));
    return found != receivers_[which].end() ? found->second.room.value : 0;
}

// --------------------------------------------------------------------------------------------------------- callers

void Fuzzed::open_sender(Input *in) {
    const uint64_t id = in->below(kIds);
    if (live(peers_.prefill(), &senders_, id) == nullptr)
        senders_[id] = {peers_.prefill().open_sender(id, 1 + in->below(3))};
}

void Fuzzed::send(Input *in) {
    const uint64_t id = in->below(kIds);
    Open *room = live(peers_.prefill(), &senders_, id);
    if (room == nullptr || room->last_sent)
        return;
    ChunkShape shape;
    shape.last = room->last_sent = in->below(2) == 0;
    shape.layer_begin = in->below(4);
    shape.layer_count = in->below(5);
    peers_.send(room->room, id, own_pages(in), shape);
}

void Fuzzed::open_receiver(size_t peer, Input *in) {
    const uint64_t id = in->below(kIds);
    Side &side = *peers_.peer(peer).side;
    if (live(side, &receivers_[peer], id) == nullptr)
        receivers_[peer][id] = {side.open_receiver(id, in->number())};
}

void Fuzzed::accept(size_t peer, Input *in) {
    Side &side = *peers_.peer(peer).side;
    Open *room = live(side, &receivers_[peer], in->below(kIds));
    if (room == nullptr || room->accepted)
        return;
    room->accepted = true;
    side.accept(room->room, own_pages(in));
}

void Fuzzed::end_room(Act what, Input *in) {
    const size_t peer = what == Act::end_receiver ? in->below(kPeers) : 0;
    Side &side = what == Act::end_receiver ? *peers_.peer(peer).side : peers_.prefill();
    if (const Open *room = live(side, what == Act::end_receiver ? &receivers_[peer] : &senders_, in->below(kIds)))
        end(side, room->room, in->below(3));
}

// ----------------------------------------------------------------------------------------------------------- peers

void Fuzzed::offer(size_t peer, Input *in) {
    const Joint &joint = peers_.peer(peer).joint;
    OfferCame offer{joint.at_prefill, joint.routes, in->below(kIds + 1), 0, 0, {}};
    offer.receiver = token(in);
    offer.prefix_tokens = in->number();
    offer.lists = any_pages(in);
    peers_.offer(peer, std::move(offer));
}

void Fuzzed::abort(size_t peer, Input *in) {
    const fuzz::Peer &from = peers_.peer(peer);
    AbortCame abort{from.joint.at_prefill->id,      from.side->instance, in->below(kIds + 1), 0, false,
                    {KVF_ERR_ABORTED, 70, "enough"}};
    abort.receiver = token(in);
    abort.offered = in->below(2) == 1;
    peers_.prefill().tell(std::move(abort));
}

void Fuzzed::news(size_t peer, Input *in) {
    const fuzz::Peer &to = peers_.peer(peer);
    NewsCame news{to.joint.at_decode->id, in->below(kIds + 1), 0, {}};
    news.receiver = token(in);
    news.news.kind = static_cast<RoomNews::Kind>(in->below(3));
    news.news.drained = in->below(2) == 1;
    news.news.bytes = in->number();
    if (news.news.kind == RoomNews::kFailed)
        news.news.cause = {KVF_ERR_TRANSPORT, 4, "broke"};
    to.side->tell(std::move(news));
}

void Fuzzed::answer(size_t peer, Input *in) {
    const fuzz::Peer &to = peers_.peer(peer);
    const uint64_t id = in->below(kIds);
    const Open *room = live(*to.side, &receivers_[peer], id);
    const RoomHandle handle = room != nullptr ? room->room : RoomHandle{token(in)};
    const uint32_t what = in->below(5);
    if (what < 2)
        to.side->tell(PeerFound{handle, to.joint.at_decode, what == 1, id});
    else if (what == 2)
        to.side->tell(PeerDelayed{handle, "not there yet"});
    else if (what == 3)
        to.side->tell(PeerRefused{handle, {KVF_ERR_LAYOUT, 4, "does not fit"}});
    else
        to.side->tell(LinkRetired{to.joint.at_decode->id});
}

void Fuzzed::of_peer(Act what, Input *in) {
    const size_t peer = in->below(kPeers);
    switch (what) {
        case Act::open_receiver:
            return open_receiver(peer, in);
        case Act::accept:
            return accept(peer, in);
        case Act::offer:
            return offer(peer, in);
        case Act::abort:
            return abort(peer, in);
        case Act::news:
            return news(peer, in);
        case Act::answer:
            return answer(peer, in);
        case Act::lose:
            peers_.lose(peer);
            return peers_.connect(peer);
        default: {
            const uint64_t id = in->below(kIds + 1);
            const uint64_t receiver = token(in);
            return peers_.peer(peer).side->tell(DrainedCame{1 + in->number(), id, receiver});
        }
    }
}

void Fuzzed::act(Act what, Input in) {
    switch (what) {
        case Act::open_sender:
            return open_sender(&in);
        case Act::send:
            return send(&in);
        case Act::end_sender:
        case Act::end_receiver:
            return end_room(what, &in);
        case Act::carry:
            return peers_.carry();
        case Act::drop:
            return peers_.drop();
        case Act::advance:
            for (uint32_t turns = 1 + in.below(8); turns != 0; --turns)
                peers_.advance();
            return;
        case Act::time:
            return peers_.pass(in.number() % 40 * kSecond);
        default:
            return of_peer(what, &in);
    }
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    fuzz::quiet();
    testing::UnitTest::GetInstance()->listeners().Append(new EndOnFailure);
    setenv("KVF_PLUGIN_PATH", KVF_TEST_FIXTURES "/good", 1);
    // Keeps the plugin in memory between inputs.
    static std::shared_ptr<Transport> loaded;
    fuzz::holds(Transport::open("memory", "", 9, &loaded), "the transport can be opened");
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input({data, size});
    Fuzzed fuzzed;
    while (!input.empty()) {
        const auto what = static_cast<Act>(input.below(static_cast<uint32_t>(Act::count)));
        fuzzed.act(what, input.record());
    }
    return 0;
}
