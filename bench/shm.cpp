// The bandwidth of shm between two processes, for several sizes of page, beside memcpy over the same pages. This is the
// decode side; it also says in which order what is measured.
#include <algorithm>

#include "benchmarks.h"
#include "shm_sides.h"

namespace bench {
namespace {

constexpr size_t kMiB = 1 << 20;

std::string size_name(size_t bytes) {
    return bytes >= kMiB ? text("%zu_MiB", bytes / kMiB) : text("%zu_KiB", bytes / 1024);
}

const char *name_of(PoolMemory memory) {
    switch (memory) {
        case PoolMemory::own_huge:
            return "own";
        case PoolMemory::own_small:
            return "own_small";
        default:
            return "mapped";
    }
}

// One kind of memory: the second process, the pools of both, and a round of everything.
class Trial {
  public:
    Trial(const ShmPlan &plan, Channel &channel);

    // GB/s of all pages of the group in one room, from the send to Success at this side, and of memcpy.
    void measure(size_t group, Pairs &pairs);

  private:
    double by_room(size_t group);
    double by_memcpy(size_t group);

    ShmPlan plan_;
    Channel &channel_;
    SharedPool target_; // of the other process's memcpy, where it maps this one's memory
    ShmSide side_;
    std::string address_;
    uint64_t next_id_ = 1;
};

Trial::Trial(const ShmPlan &plan, Channel &channel)
    : plan_(plan), channel_(channel), target_(plan.own() ? 1 : plan.pool_bytes), side_(plan, KVF_ROLE_DECODE) {
    channel_.say("begin " + plan.words() + " " + target_.name());
    address_ = channel_.hear("address");
}

double Trial::by_room(size_t group) {
    const uint64_t id = next_id_++;
    Engine &engine = side_.engine();
    const kvf_room room = engine.open_receiver(address_, id);
    engine.accept(room, side_.pages(group), static_cast<uint32_t>(group));
    channel_.say("send " + join({group, id}));
    engine.wait_success(room);
    const uint64_t end = now_ns();
    const uint64_t begin = numbers(channel_.hear("sent")).at(0);
    engine.close(room);
    return static_cast<double>(plan_.pool_bytes) / static_cast<double>(end - begin);
}

double Trial::by_memcpy(size_t group) {
    channel_.say("copy " + join({group}));
    const uint64_t took = numbers(channel_.hear("copied")).at(0);
    return static_cast<double>(plan_.pool_bytes) / static_cast<double>(took);
}

void Trial::measure(size_t group, Pairs &pairs) {
    const double room = by_room(group);
    pairs.add(room, by_memcpy(group));
}

void measure_memory(PoolMemory memory, const ShmOptions &options, Report &report) {
    ShmPlan plan;
    plan.memory = memory;
    plan.pool_bytes = (options.quick ? 16 : size_t{options.pool_mib}) * kMiB;
    if (plan.pool_bytes < *std::max_element(plan.page_bytes.begin(), plan.page_bytes.end()))
        fail("a pool of %u MiB is smaller than a page", options.pool_mib);
    const char *kind = name_of(memory);
    progress("%s memory: filling pools of %zu MiB", kind, plan.pool_bytes / kMiB);
    SecondProcess prefill("shm");
    std::vector<Pairs> pairs(plan.page_bytes.size());
    Pairs scattered; // the smallest pages against the largest but one
    {
        Trial trial(plan, prefill.channel());
        const int rounds = options.quick ? 2 : 15;
        progress("%s memory: %d rounds", kind, rounds);
        for (int round = -1; round < rounds; ++round) {
            for (size_t group = 0; group < pairs.size(); ++group) {
                Pairs warm_up;
                trial.measure(group, round < 0 ? warm_up : pairs[group]);
            }
            if (round >= 0)
                scattered.add(pairs[0].values().back(), pairs[2].values().back());
        }
        prefill.finish();
    }
    for (size_t group = 0; group < pairs.size(); ++group)
        report.add({text("shm.%s.%s", kind, size_name(plan.page_bytes[group]).c_str()), pairs[group].value(), "GB/s",
                    "memcpy of the same pages", pairs[group].peer(), pairs[group].ratio()});
    report.add({text("shm.%s.%s.scattered", kind, size_name(plan.page_bytes[0]).c_str()), scattered.value(), "GB/s",
                text("shm.%s.%s", kind, size_name(plan.page_bytes[2]).c_str()), scattered.peer(), scattered.ratio()});
}

} // namespace

void run_shm(const ShmOptions &options, Report &report) {
    for (const PoolMemory memory : {PoolMemory::mapped, PoolMemory::own_huge, PoolMemory::own_small})
        measure_memory(memory, options, report);
}

} // namespace bench
