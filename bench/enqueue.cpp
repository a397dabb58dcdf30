// What the caller pays for handing over a chunk, while the shards copy for other rooms and while they have nothing to
// do.
#include <cstdlib>
#include <cstring>

#include "background.h"
#include "benchmarks.h"
#include "engine.h"
#include "random.h"

namespace bench {
namespace {

constexpr uint32_t kGroup = 0;
constexpr uint32_t kPages = 4096, kPageBytes = 4096;
constexpr uint32_t kLongChunk = 512; // pages

// What a call is compared to: a copy of its list into memory that, as there, somebody else will free.
double copy_list(std::span<const uint32_t> pages, std::vector<void *> &copies) {
    const uint64_t begin = now_ns();
    void *copy = std::malloc(pages.size_bytes());
    std::memcpy(copy, pages.data(), pages.size_bytes());
    copies.push_back(copy);
    return static_cast<double>(now_ns() - begin);
}

class Enqueue {
  public:
    Enqueue(Engine &prefill, Engine &decode)
        : prefill_(prefill), decode_(decode), clock_(clock_overhead_ns()), all_(shuffled(kPages, 7)) {}

    double clock_overhead() const { return clock_; }
    uint64_t refused() const { return refused_; }

    // Rooms that each get so many chunks of so many pages, every call timed, next to a copy of the same list.
    void measure(uint32_t rooms, uint32_t chunks, uint32_t pages, Pairs &pairs);

  private:
    double send(kvf_room room, std::span<const uint32_t> pages, bool last);

    Engine &prefill_;
    Engine &decode_;
    double clock_;
    std::vector<uint32_t> all_;
    uint64_t next_id_ = 1;
    uint64_t refused_ = 0;
};

// The call that was taken is the one that counts.
double Enqueue::send(kvf_room room, std::span<const uint32_t> pages, bool last) {
    const kvf_index_list list{kGroup, static_cast<uint32_t>(pages.size()), pages.data()};
    kvf_chunk chunk{};
    chunk.struct_size = sizeof chunk;
    chunk.flags = last ? KVF_CHUNK_LAST : 0;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    uint64_t begin = 0;
    uint64_t end = 0;
    refused_ += until_taken("kvf_room_send", [&] {
        begin = now_ns();
        const int status = kvf_room_send(prefill_.get(), room, &chunk);
        end = now_ns();
        return status;
    });
    return static_cast<double>(end - begin);
}

void Enqueue::measure(uint32_t rooms, uint32_t chunks, uint32_t pages, Pairs &pairs) {
    const std::string address = prefill_.address();
    std::vector<kvf_room> senders, receivers;
    for (uint32_t i = 0; i < rooms; ++i) {
        senders.push_back(prefill_.open_sender(next_id_));
        receivers.push_back(decode_.open_receiver(address, next_id_++));
        decode_.accept(receivers.back(), std::span(all_).first(size_t{chunks} * pages), kGroup);
    }
    for (const kvf_room room : senders)
        prefill_.wait_for(room, KVF_STATE_WAITING);

    std::vector<void *> copies;
    copies.reserve(size_t{rooms} * chunks);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const auto list = std::span(all_).subspan(size_t{chunk} * pages, pages);
        for (const kvf_room room : senders) {
            const double call = send(room, list, chunk + 1 == chunks);
            const double copy = copy_list(list, copies);
            pairs.add(std::max(call - clock_, 1.0), std::max(copy - clock_, 1.0));
        }
    }
    for (void *copy : copies)
        std::free(copy);
    for (uint32_t i = 0; i < rooms; ++i) {
        decode_.wait_success(receivers[i]);
        prefill_.wait_success(senders[i]);
        decode_.close(receivers[i]);
        prefill_.close(senders[i]);
    }
}

void add(Report &report, const std::string &name, const Pairs &pairs) {
    const std::string peer = "malloc and memcpy of the list";
    report.add({name, pairs.value(), "ns", peer, pairs.peer(), pairs.ratio()});
    report.add(name + ".p99", percentile(pairs.values(), 0.99), "ns");
}

} // namespace

void run_enqueue(const EnqueueOptions &options, Report &report) {
    Engine prefill(engine_config(KVF_ROLE_PREFILL, "prefill", options.shards));
    Engine decode(engine_config(KVF_ROLE_DECODE, "decode", 1));
    const size_t bytes = size_t{kPages} * kPageBytes;
    Background background(prefill, decode, options.quick ? 16 : 128);
    for (Engine *engine : {&prefill, &decode}) {
        const kvf_tensor tensors[] = {tensor(kGroup, 0, engine->allocate(bytes), kPages, kPageBytes),
                                      background.tensor_of(*engine)};
        engine->register_tensors(tensors);
    }
    Enqueue enqueue(prefill, decode);
    const int rounds = options.quick ? 2 : 20;
    const uint32_t rooms = options.quick ? 8 : 64;

    Pairs idle_short, idle_long, busy_short, busy_long;
    Pairs warm_up;
    enqueue.measure(rooms, 8, kLongChunk, warm_up);
    progress("enqueuing while the shards have nothing else to do");
    for (int i = 0; i < rounds; ++i) {
        enqueue.measure(rooms, 32, 1, idle_short);
        enqueue.measure(rooms / 4, 8, kLongChunk, idle_long);
    }
    progress("enqueuing while the shards copy for other rooms");
    background.start();
    for (int i = 0; i < rounds; ++i) {
        enqueue.measure(rooms, 32, 1, busy_short);
        enqueue.measure(rooms / 4, 8, kLongChunk, busy_long);
    }
    const double copied = background.stop();

    add(report, "enqueue.1_page.busy", busy_short);
    add(report, text("enqueue.%u_pages.busy", kLongChunk), busy_long);
    add(report, "enqueue.1_page.idle", idle_short);
    add(report, text("enqueue.%u_pages.idle", kLongChunk), idle_long);
    report.add("enqueue.again", static_cast<double>(enqueue.refused()), "calls");
    report.add("enqueue.background", copied, "GB/s");
    report.add("enqueue.clock", enqueue.clock_overhead(), "ns");
}

} // namespace bench
