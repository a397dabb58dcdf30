// How many rooms a second are opened on both sides, moved and closed, many at a time, in one process.
#include <poll.h>

#include <cstring>
#include <memory>

#include "engine.h"
#include "random.h"
#include "rooms.h"

namespace bench {
namespace {

struct Slot {
    kvf_room sender{}, receiver{};
    bool sent = false, received = false;
};

// Keeps a number of rooms open; each moves the one page of its slot. Ended ones are noticed by events, as in an engine
// that serves: by looking at all rooms only when something has changed.
class Pipeline {
  public:
    explicit Pipeline(const RoomsOptions &options);

    // Rooms a second, over so many.
    double run(uint64_t rooms);
    // Copies of a page a second.
    double copy(uint64_t pages) const;

  private:
    void begin(size_t slot);
    void wait_for_events();
    void take_events(Engine &engine, bool is_sender);
    void ended(size_t slot);

    Engine prefill_, decode_;
    std::string address_;
    char *from_ = nullptr;
    char *to_ = nullptr;
    std::vector<Slot> slots_;
    uint64_t next_id_ = 0; // its remainder by the number of slots is the slot
    uint64_t left_ = 0, done_ = 0;
    std::vector<size_t> free_;
};

Pipeline::Pipeline(const RoomsOptions &options)
    : prefill_(engine_config(KVF_ROLE_PREFILL, "prefill", options.shards)),
      decode_(engine_config(KVF_ROLE_DECODE, "decode", options.shards)),
      slots_(options.in_flight) {
    address_ = prefill_.address();
    const size_t pages = slots_.size();
    from_ = prefill_.allocate(pages * kRoomPageBytes);
    to_ = decode_.allocate(pages * kRoomPageBytes);
    const kvf_tensor source[] = {tensor(0, 0, from_, pages, kRoomPageBytes)};
    const kvf_tensor target[] = {tensor(0, 0, to_, pages, kRoomPageBytes)};
    prefill_.register_tensors(source);
    decode_.register_tensors(target);
}

// Ids rise and tell the slot by their remainder, so that an event finds it.
void Pipeline::begin(size_t index) {
    Slot &slot = slots_[index];
    const auto page = static_cast<uint32_t>(index);
    const uint64_t id = next_id_++ * slots_.size() + index;
    slot = {};
    slot.receiver = decode_.open_receiver(address_, id);
    decode_.accept(slot.receiver, {&page, 1});
    slot.sender = prefill_.open_sender(id);
    prefill_.send(slot.sender, {&page, 1});
}

void Pipeline::ended(size_t index) {
    Slot &slot = slots_[index];
    if (!slot.sent || !slot.received)
        return;
    decode_.close(slot.receiver);
    prefill_.close(slot.sender);
    ++done_;
    free_.push_back(index);
}

void Pipeline::wait_for_events() {
    pollfd waiting[] = {{check(kvf_engine_event_fd(prefill_.get()), "kvf_engine_event_fd"), POLLIN, 0},
                        {check(kvf_engine_event_fd(decode_.get()), "kvf_engine_event_fd"), POLLIN, 0}};
    if (poll(waiting, 2, kPatienceMs) == 0)
        fail("nothing happened to any room for %u s", kPatienceMs / 1000);
}

void Pipeline::take_events(Engine &engine, bool is_sender) {
    kvf_event events[256];
    const int count =
        check(kvf_engine_events(engine.get(), events, std::size(events), sizeof(kvf_event), 0), "kvf_engine_events");
    for (int i = 0; i < count; ++i) {
        const kvf_event &event = events[i];
        Slot &slot = slots_[event.room_id % slots_.size()];
        // An event may still come of a room that was closed since.
        if (event.room.value != (is_sender ? slot.sender : slot.receiver).value)
            continue;
        if (event.state == KVF_STATE_FAILED)
            fail("a room failed: %s", engine.why(event.room).c_str());
        bool &is_ended = is_sender ? slot.sent : slot.received;
        if (event.state != KVF_STATE_SUCCESS || is_ended)
            continue;
        is_ended = true;
        ended(event.room_id % slots_.size());
    }
}

double Pipeline::run(uint64_t rooms) {
    left_ = rooms;
    done_ = 0;
    free_.clear();
    for (size_t i = slots_.size(); i-- > 0;)
        free_.push_back(i);
    const uint64_t begin_ns = now_ns();
    while (done_ < rooms) {
        for (; left_ > 0 && !free_.empty(); --left_) {
            const size_t index = free_.back();
            free_.pop_back();
            begin(index);
        }
        wait_for_events();
        take_events(decode_, false);
        take_events(prefill_, true);
    }
    return static_cast<double>(rooms) * 1e9 / static_cast<double>(now_ns() - begin_ns);
}

double Pipeline::copy(uint64_t pages) const {
    const uint64_t begin_ns = now_ns();
    for (uint64_t i = 0; i < pages; ++i) {
        const size_t at = i % slots_.size() * kRoomPageBytes;
        std::memcpy(to_ + at, from_ + at, kRoomPageBytes);
    }
    return static_cast<double>(pages) * 1e9 / static_cast<double>(now_ns() - begin_ns);
}

} // namespace

void measure_room_rate(const RoomsOptions &options, Report &report) {
    const uint64_t rooms = options.quick ? 500 : 20'000;
    const int repetitions = options.quick ? 2 : 9;
    Pipeline pipeline(options);
    progress("%u rooms in flight, %llu in all, %d times", options.in_flight, static_cast<unsigned long long>(rooms),
             repetitions);
    pipeline.run(rooms / 4);
    Pairs pairs;
    for (int i = 0; i < repetitions; ++i) {
        const double rate = pipeline.run(rooms);
        pairs.add(rate, pipeline.copy(rooms));
    }
    report.add({"rooms.rate", pairs.value(), "1/s", "memcpy of the 64 KiB", pairs.peer(), pairs.ratio()});
}

} // namespace bench
