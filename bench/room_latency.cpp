// How long one room of one page takes between two processes, one room at a time: this is the decode side, and below it
// stands the prefill side, which has opened its rooms and handed over their chunks before.
#include "engine.h"
#include "random.h"
#include "rooms.h"
#include "second_process.h"

namespace bench {
namespace {

constexpr uint32_t kPages = 64;

// When a room that the prefill side is ready for reached what, in nanoseconds.
struct Steps {
    uint64_t opened = 0;  // the call
    uint64_t taken = 0;   // by the decode side's shard
    uint64_t offered = 0; // the prefill side's shard knows the pages
    uint64_t copied = 0;
    uint64_t told = 0; // the decode side's shard knows of the end
    uint64_t seen = 0; // the call that waits returned
};

kvf_tensor pages_of(Engine &engine) {
    return tensor(0, 0, engine.allocate(kPages * kRoomPageBytes), kPages, kRoomPageBytes);
}

// A line there and a line back.
double round_trip(Channel &channel) {
    const uint64_t begin = now_ns();
    channel.say("ping");
    channel.hear("pong");
    return static_cast<double>(now_ns() - begin);
}

class DecodeSide {
  public:
    DecodeSide(uint32_t shards, Channel &channel)
        : engine_(engine_config(KVF_ROLE_DECODE, "decode", shards)), channel_(channel) {
        const kvf_tensor tensors[] = {pages_of(engine_)};
        engine_.register_tensors(tensors);
        address_ = channel_.hear("address");
    }

    void measure_from_open(uint64_t rooms, Pairs &pairs, std::vector<Steps> &steps);
    void measure_from_send(uint64_t rooms, Pairs &pairs);

  private:
    kvf_room open(uint64_t id) {
        const auto page = static_cast<uint32_t>(id % kPages);
        const kvf_room room = engine_.open_receiver(address_, id);
        engine_.accept(room, {&page, 1});
        return room;
    }

    Engine engine_;
    Channel &channel_;
    std::string address_;
    uint64_t next_id_ = 1;
};

void DecodeSide::measure_from_open(uint64_t rooms, Pairs &pairs, std::vector<Steps> &steps) {
    channel_.say("ahead " + join({next_id_, rooms}));
    channel_.hear("opened");
    std::vector<Steps> measured(rooms);
    for (Steps &room_steps : measured) {
        const double trip = round_trip(channel_);
        room_steps.opened = now_ns();
        const kvf_room room = open(next_id_++);
        engine_.wait_success(room);
        room_steps.seen = now_ns();
        const kvf_report report = engine_.report(room);
        room_steps.taken = report.opened_ns;
        room_steps.told = report.ended_ns;
        engine_.close(room);
        pairs.add(static_cast<double>(room_steps.seen - room_steps.opened) / 1000, trip / 1000);
    }
    channel_.say("close");
    const std::vector<uint64_t> told = numbers(channel_.hear("closed"));
    for (size_t i = 0; i < measured.size(); ++i) {
        measured[i].offered = told.at(2 * i);
        measured[i].copied = told.at(2 * i + 1);
    }
    steps.insert(steps.end(), measured.begin(), measured.end());
}

void DecodeSide::measure_from_send(uint64_t rooms, Pairs &pairs) {
    for (uint64_t i = 0; i < rooms; ++i) {
        const double trip = round_trip(channel_);
        const uint64_t id = next_id_++;
        const kvf_room room = open(id);
        channel_.say("send " + join({id}));
        engine_.wait_success(room);
        const uint64_t end = now_ns();
        const uint64_t begin = numbers(channel_.hear("sent")).at(0);
        engine_.close(room);
        pairs.add(static_cast<double>(end - begin) / 1000, trip / 1000);
    }
    channel_.say("close");
    channel_.hear("closed");
}

class PrefillSide {
  public:
    PrefillSide(uint32_t shards, Channel &channel)
        : engine_(engine_config(KVF_ROLE_PREFILL, "prefill", shards)), channel_(channel) {
        const kvf_tensor tensors[] = {pages_of(engine_)};
        engine_.register_tensors(tensors);
        channel_.say("address " + engine_.address());
    }

    void open_ahead(uint64_t first, uint64_t count) {
        for (uint64_t id = first; id < first + count; ++id) {
            open_.push_back(engine_.open_sender(id));
            send(open_.back(), id);
        }
        channel_.say("opened");
    }

    void send_now(uint64_t id) {
        open_.push_back(engine_.open_sender(id));
        engine_.wait_for(open_.back(), KVF_STATE_WAITING);
        const uint64_t begin = now_ns();
        send(open_.back(), id);
        channel_.say("sent " + join({begin}));
    }

    // Says of each room when its pages were known and when they were copied.
    void close() {
        std::vector<uint64_t> times_ns;
        for (const kvf_room room : open_) {
            engine_.wait_success(room);
            const kvf_report report = engine_.report(room);
            times_ns.insert(times_ns.end(), {report.waiting_ns, report.landed_ns});
            engine_.close(room);
        }
        open_.clear();
        channel_.say("closed " + join(times_ns));
    }

  private:
    void send(kvf_room room, uint64_t id) {
        const auto page = static_cast<uint32_t>(id % kPages);
        engine_.send(room, {&page, 1});
    }

    Engine engine_;
    Channel &channel_;
    std::vector<kvf_room> open_;
};

void add(Report &report, const std::string &name, const Pairs &pairs) {
    report.add({name, pairs.value(), "us", "a line there and back over a socket pair", pairs.peer(), pairs.ratio()});
    report.add(name + ".p99", percentile(pairs.values(), 0.99), "us");
}

void add_steps(Report &report, const std::vector<Steps> &steps) {
    static constexpr struct {
        const char *name;
        uint64_t Steps::*from;
        uint64_t Steps::*to;
    } kSteps[] = {
        {"taken", &Steps::opened, &Steps::taken},    {"offered", &Steps::taken, &Steps::offered},
        {"copied", &Steps::offered, &Steps::copied}, {"told", &Steps::copied, &Steps::told},
        {"seen", &Steps::told, &Steps::seen},
    };
    for (const auto &step : kSteps) {
        std::vector<double> samples;
        for (const Steps &room : steps)
            samples.push_back(static_cast<double>(room.*step.to - room.*step.from) / 1000);
        report.add(text("rooms.latency.from_open.%s", step.name), median(std::move(samples)), "us");
    }
}

} // namespace

void measure_room_latency(const RoomsOptions &options, Report &report) {
    SecondProcess prefill("rooms");
    prefill.channel().say("begin " + join({options.shards}));
    DecodeSide decode(options.shards, prefill.channel());
    const uint64_t rooms = options.quick ? 20 : 200;
    const int rounds = options.quick ? 2 : 20;
    progress("one room at a time between two processes, %llu in all",
             static_cast<unsigned long long>(2 * rooms * static_cast<uint64_t>(rounds)));
    Pairs from_open, from_send;
    std::vector<Steps> steps;
    {
        Pairs warm_up;
        std::vector<Steps> warm_up_steps;
        decode.measure_from_open(rooms, warm_up, warm_up_steps);
    }
    for (int i = 0; i < rounds; ++i) {
        decode.measure_from_open(rooms, from_open, steps);
        decode.measure_from_send(rooms, from_send);
    }
    prefill.finish();
    add(report, "rooms.latency.from_open", from_open);
    add_steps(report, steps);
    add(report, "rooms.latency.from_send", from_send);
}

void serve_rooms(Channel &channel) {
    const auto shards = static_cast<uint32_t>(numbers(channel.hear("begin")).at(0));
    PrefillSide prefill(shards, channel);
    obey(channel, {
                      {"ping", [&](const auto &) { channel.say("pong"); }},
                      {"ahead", [&](const auto &told) { prefill.open_ahead(told.at(0), told.at(1)); }},
                      {"send", [&](const auto &told) { prefill.send_now(told.at(0)); }},
                      {"close", [&](const auto &) { prefill.close(); }},
                  });
}

void run_rooms(const RoomsOptions &options, Report &report) {
    // The second process is started before there is an engine in this one.
    measure_room_latency(options, report);
    measure_room_rate(options, report);
}

} // namespace bench
