#include "serving_decode.h"

#include <cstring>
#include <thread>

#include "resident.h"

namespace bench {
namespace {

constexpr char kSpoilt = 0x5a;
// What one call of copy() moves at most: enough to be typical, little enough to be done soon.
constexpr uint64_t kMostCopied = uint64_t{4} << 30;

bool is_spoilt(const char *page) {
    return page[0] == kSpoilt && std::memcmp(page, page + 1, kPageBytes - 1) == 0;
}

} // namespace

ServingDecode::ServingDecode(const ServingPlan &plan, const char *source, Channel &channel)
    : plan_(plan),
      map_(plan),
      source_(source),
      channel_(channel),
      engine_(engine_config(KVF_ROLE_DECODE, "decode", plan.shards)),
      pool_(engine_.allocate(plan.pool_bytes())) {
    engine_.register_tensors(plan.tensors(pool_));
    address_ = channel_.hear("address");
}

void ServingDecode::spoil() {
    std::memset(pool_, kSpoilt, plan_.pool_bytes());
}

std::vector<kvf_room> ServingDecode::open(const std::vector<std::vector<uint32_t>> &pages, uint64_t first_id) {
    std::vector<kvf_room> rooms;
    for (const auto &list : pages) {
        rooms.push_back(engine_.open_receiver(address_, first_id++));
        engine_.accept(rooms.back(), list);
    }
    return rooms;
}

// When each room's end was noticed here.
std::vector<uint64_t> ServingDecode::await_ends(const std::vector<kvf_room> &rooms, uint64_t first_id,
                                                uint64_t *successes) {
    std::vector<uint64_t> ended_ns(rooms.size());
    std::vector<kvf_event> events(256);
    for (size_t left = rooms.size(); left > 0;) {
        const int count =
            check(kvf_engine_events(engine_.get(), events.data(), events.size(), sizeof(kvf_event), 2 * kPatienceMs),
                  "kvf_engine_events");
        if (count == 0)
            fail("%zu of %zu rooms were not at their end and nothing happened for %u s", left, rooms.size(),
                 2 * kPatienceMs / 1000);
        const uint64_t now = now_ns();
        for (int i = 0; i < count; ++i) {
            const kvf_event &event = events[static_cast<size_t>(i)];
            const uint64_t index = event.room_id - first_id;
            const bool is_ended = event.state == KVF_STATE_SUCCESS || event.state == KVF_STATE_FAILED;
            // Events of rooms of an earlier round may still come.
            if (!is_ended || index >= rooms.size() || rooms[index].value != event.room.value || ended_ns[index] != 0)
                continue;
            ended_ns[index] = now;
            --left;
            *successes += event.state == KVF_STATE_SUCCESS ? 1 : 0;
            if (event.state == KVF_STATE_FAILED)
                progress("decode side: %s", engine_.why(event.room).c_str());
        }
    }
    return ended_ns;
}

Round ServingDecode::run(uint64_t round) {
    Round out;
    ResidentWatch watch;
    const auto pages = map_.rooms_of(round);
    const uint64_t first_id = next_id_;
    next_id_ += pages.size();
    channel_.say("open " + join({round, first_id}));
    const std::vector<kvf_room> rooms = open(pages, first_id);
    channel_.hear("waiting");
    channel_.say("send");
    const std::vector<uint64_t> ended_ns = await_ends(rooms, first_id, &out.successes);
    const std::vector<uint64_t> sent_ns = numbers(channel_.hear("sent"));
    channel_.say("close");
    for (const kvf_room room : rooms)
        check(kvf_room_close_deferred(engine_.get(), room), "kvf_room_close_deferred");
    const auto told = numbers(channel_.hear("closed"));
    watch.stop();

    for (size_t i = 0; i < rooms.size(); ++i)
        out.latencies_ms.push_back(static_cast<double>(ended_ns[i] - sent_ns.at(i)) / 1e6);
    out.seconds = static_cast<double>(*std::max_element(ended_ns.begin(), ended_ns.end()) - sent_ns.front()) / 1e9;
    for (const auto &list : pages)
        out.bytes += list.size() * plan_.page_bytes_of_all_layers();
    out.sender_successes = told.at(0);
    out.sender_bytes = told.at(1);
    out.resident_before = watch.before();
    out.resident_peak = watch.peak();
    out.sender_resident_before = told.at(2);
    out.sender_resident_peak = told.at(3);
    return out;
}

uint64_t ServingDecode::wrong_pages(uint64_t round, bool all) const {
    std::vector<bool> brought(plan_.pool_pages);
    for (const auto &list : map_.rooms_of(round))
        for (const uint32_t page : list)
            brought[page] = true;
    uint64_t wrong = 0;
    for (uint32_t layer = 0; layer < plan_.layers; ++layer) {
        for (uint32_t page = 0; page < plan_.pool_pages; ++page) {
            const char *at = pool_ + plan_.offset(layer, page);
            if (brought[page])
                wrong += is_page(at, layer, map_.source(page)) ? 0 : 1;
            else if (all)
                wrong += is_spoilt(at) ? 0 : 1;
        }
    }
    return wrong;
}

void ServingDecode::copy_room(const std::vector<uint32_t> &pages) const {
    for (uint32_t layer = 0; layer < plan_.layers; ++layer) {
        for (const uint32_t page : pages) {
            const uint32_t from = (map_.source(page) + 1) % plan_.pool_pages;
            std::memcpy(pool_ + plan_.offset(layer, page), source_ + plan_.offset(layer, from), kPageBytes);
        }
    }
}

double ServingDecode::copy(uint64_t round, uint32_t threads) const {
    auto rooms = map_.rooms_of(round);
    rooms.resize(std::min<uint64_t>(rooms.size(), std::max<uint64_t>(1, kMostCopied / plan_.room_bytes())));
    const uint64_t begin = now_ns();
    const auto copy_share = [&](size_t first) {
        for (size_t i = first; i < rooms.size(); i += threads)
            copy_room(rooms[i]);
    };
    std::vector<std::thread> others;
    for (uint32_t i = 1; i < threads; ++i)
        others.emplace_back(copy_share, i);
    copy_share(0);
    for (std::thread &other : others)
        other.join();
    return static_cast<double>(rooms.size() * plan_.room_bytes()) / static_cast<double>(now_ns() - begin);
}

} // namespace bench
