#include "scenario.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <random>

namespace kvf::sim {
namespace {

class Scenario {
  public:
    Scenario(uint64_t seed, const ScenarioOptions &options)
        : world_(seed, options.traced),
          fabric_(world_, weather(world_.random)),
          network_(world_),
          model_(world_),
          options_(options) {}

    Outcome run();

  private:
    // A request's two or more rooms and what is still to be done for them.
    struct Job {
        std::shared_ptr<Request> request;
        uint32_t prefill = 0;
        std::vector<uint32_t> decodes;
        SeenRef sender;
        std::vector<SeenRef> receivers;
    };
    using JobRef = std::shared_ptr<Job>;

    static Weather weather(Random &random);
    void start_engine(uint32_t number);
    void wire_up();
    void issue();
    void open_sender(const JobRef &job, int tries);
    void open_receiver(const JobRef &job, size_t index, int tries);
    void accept(const SeenRef &room, int tries);
    void send_chunks(const JobRef &job);
    void send_chunk(const SeenRef &room, const std::shared_ptr<std::vector<Chunk>> &chunks, size_t index, int tries);
    void live_on(const SeenRef &room);
    void try_close(const SeenRef &room);
    void closed(const SeenRef &room);
    void disturb();
    void restart(uint32_t number, uint64_t pause);
    void wind_down();
    void check_end();
    template <typename Call>
    void later(uint64_t most, Call call) {
        world_.after(1 + world_.random.below(most), std::move(call));
    }
    uint64_t when();

    World world_;
    Fabric fabric_;
    Network network_;
    Model model_;
    const ScenarioOptions options_;
    uint32_t issued_ = 0;
    uint64_t opened_ = 0;
    uint64_t serial_ = 0;
    uint64_t next_id_ = 1;
    std::vector<uint64_t> free_ids_;
    std::map<uint64_t, uint32_t> id_users_;
    std::vector<EngineParams> params_;
    std::vector<EngineRef> engines_;
    std::vector<uint32_t> prefills_, decodes_;
    bool calm_ = false;      // this seed has no faults of processes and network
    bool hasty_ = false;     // callers do the next thing soon
    bool any_ended_ = false; // an engine, without a word
    bool winding_ = false;
    double abort_chance_ = 0;
};

Weather Scenario::weather(Random &random) {
    Weather weather;
    if (random.chance(0.3))
        return weather;
    weather.slow = random.chance(0.5) ? 0.05 : 0;
    weather.fails = random.chance(0.4) ? 0.05 : 0;
    weather.never = random.chance(0.3) ? 0.02 : 0;
    weather.partial = random.chance(0.5) ? 0.3 : 0;
    weather.full = random.chance(0.3) ? 0.2 : 0;
    weather.can_cancel = random.chance(0.7);
    weather.can_fence = random.chance(0.8);
    weather.fence_revokes = random.chance(0.5);
    weather.strided = random.chance(0.5);
    weather.linger = random.between(1, 300) * kMilli;
    return weather;
}

void Scenario::start_engine(uint32_t number) {
    auto engine = std::make_shared<SimEngine>(world_, fabric_, network_, params_[number]);
    engine->changed = [this](SimEngine &its, uint32_t slot) { model_.changed(its, slot); };
    engine->fence_awaited = [this](SimEngine &its, RoomHandle room, int) {
        const SeenRef seen = model_.find(its, room);
        later(5 * kMilli, [this, seen, self = its.shared_from_this(), room] {
            if (!self->alive() || !seen || seen->gone)
                return;
            if (!seen->filled)
                model_.fill(*seen);
            self->fire(room);
        });
    };
    if (engines_.size() <= number)
        engines_.resize(number + 1);
    engines_[number] = engine;
    engine->start();
    world_.trace("engine %u starts", number);
}

void Scenario::wire_up() {
    Random &random = world_.random;
    network_.most_latency = random.chance(0.3) ? 10 * kMilli : 100 * kMicro;
    calm_ = random.chance(0.3) && !options_.stormy;
    hasty_ = random.chance(0.5);
    abort_chance_ = random.chance(0.6) ? 0.15 : 0;
    const Weather &weather = fabric_.weather();
    model_.orderly = calm_ && hasty_ && weather.fails == 0 && weather.never == 0;
    const uint32_t prefills = 1 + static_cast<uint32_t>(random.below(2));
    const uint32_t decodes = 1 + static_cast<uint32_t>(random.below(3));
    const uint32_t layers = 1 + static_cast<uint32_t>(random.below(3));
    for (uint32_t number = 0; number < prefills + decodes; ++number) {
        EngineParams params;
        params.number = number;
        params.role = number < prefills ? KVF_ROLE_PREFILL : KVF_ROLE_DECODE;
        params.shards = 1 + static_cast<uint32_t>(random.below(3));
        params.layers = layers;
        params.max_rooms = static_cast<uint32_t>(random.between(8, 64));
        params.inbox = static_cast<uint32_t>(random.between(4, 64));
        params.window_ops = static_cast<uint32_t>(random.between(1, 16));
        params.max_unclaimed = model_.orderly ? 4096 : random.between(2, 64);
        model_.deadline = params.deadline;
        params_.push_back(params);
        (number < prefills ? prefills_ : decodes_).push_back(number);
        start_engine(number);
    }
    fabric_.landed = [this](const Piece &piece) { model_.landed(piece); };
    fabric_.ready = [this](uint64_t instance, uint32_t shard) {
        for (const EngineRef &engine : engines_)
            if (engine->alive() && engine->instance() == instance)
                engine->lane_ready(shard);
    };
}

// Something between at once and half a deadline, mostly soon.
uint64_t Scenario::when() {
    const uint64_t longest = hasty_ ? 100 * kMilli : kSecond;
    const uint64_t most = world_.random.chance(0.8) ? kMilli : (world_.random.chance(0.8) ? 50 * kMilli : longest);
    return 1 + world_.random.below(most);
}

void Scenario::issue() {
    if (issued_ == options_.requests)
        return wind_down();
    ++issued_;
    Random &random = world_.random;
    auto job = std::make_shared<Job>();
    job->request = std::make_shared<Request>();
    job->request->serial = ++serial_;
    if (!free_ids_.empty() && random.chance(0.5)) {
        job->request->id = free_ids_.back();
        free_ids_.pop_back();
    } else {
        job->request->id = next_id_++;
    }
    job->request->pages = static_cast<uint32_t>(random.below(12));
    job->request->aux = static_cast<uint32_t>(random.below(2));
    job->prefill = prefills_[random.below(prefills_.size())];
    job->decodes = decodes_;
    std::shuffle(job->decodes.begin(), job->decodes.end(), std::minstd_rand(static_cast<uint32_t>(random.next())));
    job->decodes.resize(random.chance(0.85) ? 1 : random.between(1, job->decodes.size()));
    job->receivers.resize(job->decodes.size());
    id_users_[job->request->id] = static_cast<uint32_t>(1 + job->decodes.size());
    world_.after(when(), [this, job] { open_sender(job, 0); });
    for (size_t i = 0; i < job->decodes.size(); ++i)
        world_.after(when(), [this, job, i] { open_receiver(job, i, 0); });
    later(random.chance(0.5) ? 200 * kMicro : 10 * kMilli, [this] { issue(); });
}

void Scenario::open_sender(const JobRef &job, int tries) {
    const EngineRef engine = engines_[job->prefill];
    auto room = std::make_shared<SeenRoom>();
    room->engine = engine;
    room->request = job->request;
    room->sender = true;
    int code = KVF_ERR_AGAIN;
    if (engine->alive() && !engine->closing() && model_.own_pages(room)) {
        code = engine->open_sender(job->request->id, static_cast<uint32_t>(job->decodes.size()), &room->handle);
        if (code != KVF_OK)
            model_.free_pages(*room);
    }
    if (code == KVF_ERR_EXISTS)
        world_.violation("room %llu exists already as a sender", static_cast<unsigned long long>(job->request->id));
    if (code != KVF_OK) {
        if (tries < 50)
            later(20 * kMilli, [this, job, tries] { open_sender(job, tries + 1); });
        else
            --id_users_[job->request->id];
        return;
    }
    ++opened_;
    job->sender = room;
    model_.opened(room);
    send_chunks(job);
    live_on(room);
}

void Scenario::open_receiver(const JobRef &job, size_t index, int tries) {
    const EngineRef engine = engines_[job->decodes[index]];
    auto room = std::make_shared<SeenRoom>();
    room->engine = engine;
    room->request = job->request;
    int code = KVF_ERR_AGAIN;
    if (engine->alive() && !engine->closing() && model_.own_pages(room)) {
        const std::string place = world_.random.chance(0.5)
                                      ? "boot-" + std::to_string(job->prefill) + ":80"
                                      : "tcp://10.0.0." + std::to_string(job->prefill + 1) + ":7000";
        code = engine->open_receiver(job->request->id, place, &room->handle);
        if (code != KVF_OK)
            model_.free_pages(*room);
    }
    if (code == KVF_ERR_EXISTS)
        world_.violation("room %llu exists already as a receiver", static_cast<unsigned long long>(job->request->id));
    if (code != KVF_OK) {
        if (tries < 50)
            later(20 * kMilli, [this, job, index, tries] { open_receiver(job, index, tries + 1); });
        else
            --id_users_[job->request->id];
        return;
    }
    ++opened_;
    job->receivers[index] = room;
    model_.opened(room);
    world_.after(when(), [this, room] { accept(room, 0); });
    live_on(room);
}

void Scenario::accept(const SeenRef &room, int tries) {
    if (room->gone || !room->engine->alive())
        return;
    std::vector<PageRuns> lists;
    for (uint32_t group = 0; group < 2; ++group)
        if (!room->pages[group].empty())
            lists.emplace_back(group, room->pages[group]);
    const int code = room->engine->accept(room->handle, std::move(lists));
    if (code == KVF_ERR_AGAIN && tries < 1000)
        later(kMilli, [this, room, tries] { accept(room, tries + 1); });
    if (code == KVF_ERR_STATE && !room->over())
        world_.violation("room %llu can't be accepted, though it was not before",
                         static_cast<unsigned long long>(room->request->id));
}

void Scenario::send_chunks(const JobRef &job) {
    Random &random = world_.random;
    const SeenRef room = job->sender;
    auto chunks = std::make_shared<std::vector<Chunk>>();
    const bool fenced = random.chance(0.2);
    const bool by_layer = random.chance(0.2);
    size_t at = 0;
    const std::vector<uint32_t> &pages = room->pages[0];
    do {
        const size_t take = random.between(pages.empty() ? 0 : 1, pages.size() - at);
        const PageList list{
            0,
            {pages.begin() + static_cast<std::ptrdiff_t>(at), pages.begin() + static_cast<std::ptrdiff_t>(at + take)}};
        const uint32_t pieces = by_layer ? room->engine->params().layers : 1;
        for (uint32_t layer = 0; layer < pieces; ++layer) {
            Chunk chunk;
            chunk.lists = {list};
            chunk.layer_begin = layer;
            chunk.layer_count = by_layer ? 1 : 0;
            chunks->push_back(std::move(chunk));
        }
        at += take;
    } while (at < pages.size());
    if (!room->pages[1].empty()) {
        Chunk chunk;
        chunk.lists = {{1, room->pages[1]}};
        chunks->push_back(std::move(chunk));
    }
    if (random.chance(0.3))
        chunks->emplace_back();
    chunks->back().last = true;
    if (fenced)
        chunks->front().fence = OwnedFd(eventfd(0, EFD_CLOEXEC));
    else
        model_.fill(*room);
    world_.after(when(), [this, room, chunks] { send_chunk(room, chunks, 0, 0); });
}

void Scenario::send_chunk(const SeenRef &room, const std::shared_ptr<std::vector<Chunk>> &chunks, size_t index,
                          int tries) {
    if (room->gone || !room->engine->alive() || index == chunks->size())
        return;
    Chunk &planned = (*chunks)[index];
    auto chunk = std::make_unique<Chunk>();
    chunk->lists = planned.lists;
    chunk->layer_begin = planned.layer_begin;
    chunk->layer_count = planned.layer_count;
    chunk->last = planned.last;
    if (planned.fence.get() >= 0)
        chunk->fence = OwnedFd(dup(planned.fence.get()));
    const int code = room->engine->send(room->handle, std::move(chunk));
    if (code == KVF_ERR_AGAIN && tries < 1000)
        return later(kMilli, [this, room, chunks, index, tries] { send_chunk(room, chunks, index, tries + 1); });
    if (code == KVF_OK)
        later(kMilli, [this, room, chunks, index] { send_chunk(room, chunks, index + 1, 0); });
}

// The caller's whims: aborts, closes soon or late, gives the handle up.
void Scenario::live_on(const SeenRef &room) {
    Random &random = world_.random;
    if (random.chance(abort_chance_))
        world_.after(when(), [room] {
            if (room->gone || !room->engine->alive())
                return;
            room->request->given_up = true;
            room->engine->abort(room->handle);
        });
    if (random.chance(0.1))
        world_.after(when() + when(), [this, room] {
            if (room->gone || !room->engine->alive())
                return;
            world_.trace("room %llu on engine %u: close deferred", static_cast<unsigned long long>(room->request->id),
                         room->engine->number());
            room->request->given_up = true;
            room->engine->close_deferred(room->handle);
        });
    later(kMilli, [this, room] { try_close(room); });
}

void Scenario::try_close(const SeenRef &room) {
    if (room->gone || !room->engine->alive())
        return;
    const int code = room->engine->close(room->handle);
    if (code == KVF_OK && !room->quiesced)
        world_.violation("room %llu was closed and not quiesced", static_cast<unsigned long long>(room->request->id));
    if (code == KVF_OK || code == KVF_ERR_STALE)
        return closed(room);
    later(20 * kMilli, [this, room] { try_close(room); });
}

void Scenario::closed(const SeenRef &room) {
    model_.free_pages(*room);
    room->gone = true;
    model_.sweep();
    if (--id_users_[room->request->id] == 0) {
        id_users_.erase(room->request->id);
        // Word of a room that was given up before its peer was found may reach the next of its id.
        if (model_.orderly && room->request->given_up)
            return;
        free_ids_.push_back(room->request->id);
    }
}

void Scenario::disturb() {
    if (winding_ || calm_)
        return;
    Random &random = world_.random;
    const auto number = static_cast<uint32_t>(random.below(engines_.size()));
    const auto other = static_cast<uint32_t>(random.below(engines_.size()));
    switch (random.below(8)) {
        case 0:
        case 1:
            world_.trace("a connection breaks");
            network_.cut_one();
            break;
        case 2:
        case 3: {
            const bool both = random.chance(0.5);
            world_.trace("engine %u is cut off from %u%s", number, other, both ? ", both ways" : "");
            network_.partition(number, other);
            if (both)
                network_.partition(other, number);
            later(random.chance(0.5) ? 100 * kMilli : 2 * kSecond, [this, number, other] {
                network_.heal(number, other);
                network_.heal(other, number);
            });
            break;
        }
        case 4:
            if (engines_[number]->alive() && !engines_[number]->closing()) {
                const bool silently = random.chance(0.3);
                world_.trace("engine %u dies%s", number, silently ? " silently" : "");
                any_ended_ = true;
                engines_[number]->crash(silently);
                restart(number, random.below(random.chance(0.5) ? kMilli : 300 * kMilli));
            }
            break;
        case 5:
            if (engines_[number]->alive() && !engines_[number]->closing()) {
                any_ended_ = true;
                world_.trace("engine %u is destroyed", number);
                engines_[number]->shut_down(random.below(100 * kMilli), [this, number] { restart(number, kMilli); });
            }
            break;
        default:
            if (engines_[number]->alive() && !engines_[number]->closing()) {
                const bool back = engines_[number]->loads("simb");
                world_.trace("engine %u swaps its transport", number);
                engines_[number]->load(back ? "sim" : "simb");
                later(10 * kMilli, [engine = engines_[number], back] {
                    if (engine->alive() && !engine->closing())
                        engine->unload(back ? "simb" : "sim");
                });
            }
    }
    later(random.chance(0.5) || options_.stormy ? 20 * kMilli : 500 * kMilli, [this] { disturb(); });
}

void Scenario::restart(uint32_t number, uint64_t pause) {
    // What its rooms held is gone with the process; their ids are not used again.
    model_.engine_gone(*engines_[number]);
    world_.after(1 + pause, [this, number] { start_engine(number); });
}

void Scenario::wind_down() {
    winding_ = true;
    // Long enough for every deadline, one after the other, and for what a partition held up.
    world_.after(2 * kSecond, [this] { network_.heal_all(); });
    world_.after(20 * kSecond, [this] { check_end(); });
}

void Scenario::check_end() {
    for (const SeenRef &room : model_.live())
        if (!room->over())
            world_.violation("room %llu.%llu (%s on engine %u) hangs in state %u",
                             static_cast<unsigned long long>(room->request->id),
                             static_cast<unsigned long long>(room->request->serial),
                             room->sender ? "sender" : "receiver", room->engine->number(), room->state);
    const bool quarantine = fabric_.weather().never > 0 || (any_ended_ && !fabric_.weather().can_fence);
    for (const SeenRef &room : model_.live())
        if (room->over() && !room->quiesced && !quarantine)
            world_.violation("room %llu.%llu (%s on engine %u) is not quiesced",
                             static_cast<unsigned long long>(room->request->id),
                             static_cast<unsigned long long>(room->request->serial),
                             room->sender ? "sender" : "receiver", room->engine->number());
    if (!model_.live().empty())
        return;
    for (const EngineRef &engine : engines_) {
        const std::string left = engine->alive() ? engine->leftovers() : "";
        if (!left.empty())
            world_.violation("engine %u has left: %s", engine->number(), left.c_str());
    }
}

Outcome Scenario::run() {
    wire_up();
    issue();
    later(100 * kMilli, [this] { disturb(); });
    const uint64_t limit = world_.now() + 600 * kSecond;
    while (world_.violations() == 0 && world_.now() < limit && world_.step())
        if (winding_ && world_.now() > limit)
            break;
    Outcome outcome;
    outcome.rooms = opened_;
    outcome.successes = model_.successes;
    outcome.failures = model_.failures;
    outcome.codes = model_.codes;
    outcome.violations = world_.violations();
    outcome.first_violation = world_.first_violation();
    for (const EngineRef &engine : engines_)
        if (engine->alive())
            engine->crash(false);
    world_.clear();
    return outcome;
}

} // namespace

Outcome run_seed(uint64_t seed, const ScenarioOptions &options) {
    return Scenario(seed, options).run();
}

} // namespace kvf::sim
