// What a look at a room costs, with few rooms open and with very many.
#include <atomic>
#include <memory>

#include "benchmarks.h"
#include "engine.h"
#include "random.h"

namespace bench {
namespace {

constexpr uint32_t kFew = 10;

// What a look is compared to: one load of a word that, like a room, has a cache line of its own.
struct alignas(64) Word {
    std::atomic<uint64_t> value{1};
};

// Rooms in the order that they are looked at in, and as many words at the same places.
struct Tour {
    std::vector<kvf_room> rooms;
    std::vector<const Word *> words;
};

// All rooms are Bootstrapping and all words 1, so a right sum is the number of looks.
double per_look(uint64_t begin, uint64_t looks, uint64_t sum) {
    const uint64_t end = now_ns();
    if (sum != looks)
        fail("a room that nobody claims is not Bootstrapping");
    return static_cast<double>(end - begin) / static_cast<double>(looks);
}

// An engine with rooms that stay Bootstrapping: senders whose receivers never come, which takes no transport.
class Rooms {
  public:
    Rooms(const char *name, uint32_t count) : engine_(config(name, count), nullptr), words_(new Word[count]) {
        for (uint32_t i = 0; i < count; ++i)
            rooms_.push_back(engine_.open_sender(i));
    }

    Tour tour(const std::vector<uint32_t> &order) const {
        Tour out;
        for (const uint32_t i : order) {
            out.rooms.push_back(rooms_[i]);
            out.words.push_back(&words_[i]);
        }
        return out;
    }

    double poll(const Tour &tour, uint64_t looks) const {
        uint64_t sum = 0;
        kvf_room_status status{};
        status.struct_size = sizeof status;
        const uint64_t begin = now_ns();
        for (uint64_t left = looks; left > 0;) {
            const size_t now = std::min<uint64_t>(left, tour.rooms.size());
            for (size_t i = 0; i < now; ++i) {
                const int code = kvf_room_poll(engine_.get(), tour.rooms[i], &status);
                sum += code == KVF_OK ? status.state : 0;
            }
            left -= now;
        }
        return per_look(begin, looks, sum);
    }

    static double load(const Tour &tour, uint64_t looks) {
        uint64_t sum = 0;
        const uint64_t begin = now_ns();
        for (uint64_t left = looks; left > 0;) {
            const size_t now = std::min<uint64_t>(left, tour.words.size());
            for (size_t i = 0; i < now; ++i)
                sum += tour.words[i]->value.load(std::memory_order_acquire);
            left -= now;
        }
        return per_look(begin, looks, sum);
    }

    double poll_many(const Tour &tour, uint64_t looks) const {
        std::vector<uint32_t> states(tour.rooms.size());
        uint64_t sum = 0;
        uint64_t done = 0;
        const uint64_t begin = now_ns();
        for (; done < looks; done += states.size()) {
            check(kvf_room_poll_many(engine_.get(), tour.rooms.data(), states.data(), states.size()),
                  "kvf_room_poll_many");
            sum += states.back() == KVF_STATE_BOOTSTRAPPING ? states.size() : 0;
        }
        return per_look(begin, done, sum);
    }

  private:
    static kvf_engine_config config(const char *name, uint32_t count) {
        kvf_engine_config out = engine_config(KVF_ROLE_PREFILL, name, 1);
        out.max_rooms = count;
        out.waiting_ms = 10 * kPatienceMs;
        return out;
    }

    Engine engine_;
    std::vector<kvf_room> rooms_;
    std::unique_ptr<Word[]> words_;
};

} // namespace

void run_poll(const PollOptions &options, Report &report) {
    const uint32_t many = options.quick ? 2'000 : 100'000;
    const uint64_t looks = options.quick ? 20'000 : 1'000'000;
    const int repetitions = options.quick ? 3 : 25;
    progress("opening %u rooms", many);
    const Rooms few("few", kFew);
    const Rooms crowd("crowd", many);

    const std::vector<uint32_t> scattered = shuffled(many, 1);
    const Tour ten = few.tour(shuffled(kFew, 1));
    const Tour same_ten = crowd.tour({scattered.begin(), scattered.begin() + kFew});
    const Tour in_turn = crowd.tour(counted(many));
    const Tour mixed = crowd.tour(scattered);

    Pairs base, same, turn, turn_memory, random, random_memory, many_of_ten, many_of_all;
    progress("polling, %d times each", repetitions);
    for (int i = -1; i < repetitions; ++i) {
        const double of_ten = few.poll(ten, looks);
        const double loads_of_ten = Rooms::load(ten, looks);
        const double of_same = crowd.poll(same_ten, looks);
        const double of_turn = crowd.poll(in_turn, looks);
        const double loads_of_turn = Rooms::load(in_turn, looks);
        const double of_mixed = crowd.poll(mixed, looks);
        const double loads_of_mixed = Rooms::load(mixed, looks);
        const double list_of_ten = few.poll_many(ten, looks);
        const double list_of_all = crowd.poll_many(in_turn, looks);
        if (i < 0) // warms up
            continue;
        base.add(of_ten, loads_of_ten);
        same.add(of_same, of_ten);
        turn.add(of_turn, of_ten);
        turn_memory.add(of_turn, loads_of_turn);
        random.add(of_mixed, of_ten);
        random_memory.add(of_mixed, loads_of_mixed);
        many_of_ten.add(list_of_ten, of_ten);
        many_of_all.add(list_of_all, list_of_ten);
    }

    const std::string crowded = text("poll.%u_open", many);
    const std::string lines = text("an atomic load of each of %u cache lines", many);
    const auto add = [&report](std::string name, std::string peer, const Pairs &pairs) {
        report.add({std::move(name), pairs.value(), "ns", std::move(peer), pairs.peer(), pairs.ratio()});
    };
    add("poll.10_open", "an atomic load of each of 10 cache lines", base);
    add(crowded + ".same_10", "poll.10_open", same);
    add(crowded + ".in_turn", "poll.10_open", turn);
    add(crowded + ".in_turn.memory", lines + ", in turn", turn_memory);
    add(crowded + ".scattered", "poll.10_open", random);
    add(crowded + ".scattered.memory", lines + ", scattered", random_memory);
    add("poll_many.10_open", "poll.10_open", many_of_ten);
    add(text("poll_many.%u_open", many), "poll_many.10_open", many_of_all);
}

} // namespace bench
