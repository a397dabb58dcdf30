// Rooms as large as those of a model in service, all in flight at the same time between two processes; every page is
// looked at afterwards. This is how the two sides are used; what they do stands in serving_decode and serving_prefill.
#include <cstdlib>
#include <string_view>

#include "benchmarks.h"
#include "resident.h"
#include "second_process.h"
#include "serving_decode.h"
#include "shared_pool.h"

namespace bench {
namespace {

constexpr double kGiB = 1 << 30;
constexpr double kMiB = 1 << 20;

ServingOptions adjusted(ServingOptions options) {
    if (options.quick) {
        options.rooms = std::min(options.rooms, 16u);
        options.tokens = std::min(options.tokens, 512u);
        options.layers = std::min(options.layers, 2u);
        options.pool_gib = 1.0 / 16;
        options.rounds = 2;
    }
    if (options.rooms == 0 || options.tokens == 0 || options.layers == 0)
        fail("%u rooms of %u tokens and %u layers; expected none of them 0", options.rooms, options.tokens,
             options.layers);
    if (options.rounds == 0)
        options.rounds = options.rooms == 1 ? 40 : 1;
    if (options.pool_gib == 0) // two pools, and something left for everybody else
        options.pool_gib = std::min(4.0, static_cast<double>(available_bytes()) / kGiB / 5);
    return options;
}

// What an engine takes when it is not told: KVF_SHARDS, or the library's own choice.
uint32_t default_shards() {
    std::vector<kvf_config_entry> entries(64);
    const int count = kvf_config_list(entries.data(), entries.size(), sizeof entries[0]);
    entries.resize(std::clamp<size_t>(count < 0 ? 0 : static_cast<size_t>(count), 0, entries.size()));
    for (const kvf_config_entry &entry : entries)
        if (std::string_view(entry.name) == "KVF_SHARDS")
            return static_cast<uint32_t>(std::strtoul(entry.value, nullptr, 10));
    fail("the library lists no KVF_SHARDS");
}

ServingPlan plan_of(const ServingOptions &options) {
    ServingPlan plan;
    plan.rooms = options.rooms;
    plan.room_pages = (options.tokens - 1) / kPageTokens + 1;
    plan.layers = options.layers;
    plan.shards = options.shards != 0 ? options.shards : default_shards();
    plan.seed = options.seed;
    const double pages = options.pool_gib * kGiB / static_cast<double>(plan.page_bytes_of_all_layers());
    plan.pool_pages = static_cast<uint32_t>(std::min(pages, 4e9));
    if (plan.pool_pages < plan.room_pages)
        fail("a pool of %.2f GiB has %u pages of %u layers, a room of %u tokens needs %u", options.pool_gib,
             plan.pool_pages, plan.layers, options.tokens, plan.room_pages);
    return plan;
}

void fill(char *pool, const ServingPlan &plan) {
    for (uint32_t layer = 0; layer < plan.layers; ++layer)
        for (uint32_t page = 0; page < plan.pool_pages; ++page)
            write_page(pool + plan.offset(layer, page), layer, page);
}

// What all rounds came to.
struct Sum {
    uint64_t rooms = 0, successes = 0, sender_successes = 0;
    uint64_t bytes = 0, sender_bytes = 0;
    uint64_t wrong_pages = 0;
    uint64_t resident = 0, sender_resident = 0; // the most of any round, beyond the pools
    uint64_t resident_grown = 0, sender_resident_grown = 0;
    std::vector<double> latencies_ms;
    Pairs rate, rate_of_threads, milliseconds;
};

void add_round(const Round &round, Sum &sum) {
    sum.rooms += round.latencies_ms.size();
    sum.successes += round.successes;
    sum.sender_successes += round.sender_successes;
    sum.bytes += round.bytes;
    sum.sender_bytes += round.sender_bytes;
    sum.resident = std::max(sum.resident, round.resident_peak);
    sum.sender_resident = std::max(sum.sender_resident, round.sender_resident_peak);
    sum.resident_grown = std::max(sum.resident_grown, round.resident_peak - round.resident_before);
    sum.sender_resident_grown =
        std::max(sum.sender_resident_grown, round.sender_resident_peak - round.sender_resident_before);
    sum.latencies_ms.insert(sum.latencies_ms.end(), round.latencies_ms.begin(), round.latencies_ms.end());
}

// memcpy before and after each round: of the pages of a round that is not near, so that none are in a cache.
Sum run_rounds(ServingDecode &decode, const ServingPlan &plan, uint32_t rounds) {
    struct Copies {
        double one, all;
    };
    const auto copy = [&](uint32_t near) -> Copies {
        const uint64_t far = (near + rounds / 2) % rounds;
        const double one = decode.copy(far, 1);
        return {one, plan.shards == 1 ? one : decode.copy(far, plan.shards)};
    };
    Sum sum;
    Copies before = copy(0);
    for (uint32_t i = 0; i < rounds; ++i) {
        const Round round = decode.run(i);
        add_round(round, sum);
        sum.wrong_pages += decode.wrong_pages(i, rounds == 1);
        const Copies after = copy(i);
        const Copies mean{(before.one + after.one) / 2, (before.all + after.all) / 2};
        const double rate = static_cast<double>(round.bytes) / round.seconds / 1e9;
        sum.rate.add(rate, mean.one);
        sum.rate_of_threads.add(rate, mean.all);
        sum.milliseconds.add(median(round.latencies_ms), static_cast<double>(plan.room_bytes()) / mean.one / 1e6);
        before = after;
    }
    return sum;
}

void add_figures(const ServingPlan &plan, const Sum &sum, Report &report) {
    const auto rooms = static_cast<double>(sum.rooms);
    const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / kMiB; };
    report.add("serving.success.decode", static_cast<double>(sum.successes), "rooms", "rooms opened", rooms);
    report.add("serving.success.prefill", static_cast<double>(sum.sender_successes), "rooms", "rooms opened", rooms);
    report.add("serving.wrong_pages", static_cast<double>(sum.wrong_pages), "pages");
    report.add("serving.bytes", static_cast<double>(sum.sender_bytes) / 1e9, "GB", "what the rooms hold",
               static_cast<double>(sum.bytes) / 1e9);
    report.add({"serving.rate", sum.rate.value(), "GB/s", "memcpy of the same pages, one thread", sum.rate.peer(),
                sum.rate.ratio()});
    report.add({"serving.rate.threads", sum.rate_of_threads.value(), "GB/s",
                text("memcpy of the same pages, %u threads", plan.shards), sum.rate_of_threads.peer(),
                sum.rate_of_threads.ratio()});
    if (plan.rooms == 1)
        report.add({"serving.latency", sum.milliseconds.value(), "ms", "memcpy of the same pages, one thread",
                    sum.milliseconds.peer(), sum.milliseconds.ratio()});
    else
        report.add("serving.latency", median(sum.latencies_ms), "ms");
    report.add("serving.latency.p99", percentile(sum.latencies_ms, 0.99), "ms");
    report.add("serving.resident.decode", mib(sum.resident), "MiB");
    report.add("serving.resident.decode.grown", mib(sum.resident_grown), "MiB");
    report.add("serving.resident.prefill", mib(sum.sender_resident), "MiB");
    report.add("serving.resident.prefill.grown", mib(sum.sender_resident_grown), "MiB");
}

} // namespace

void run_serving(const ServingOptions &given, Report &report) {
    const ServingOptions options = adjusted(given);
    const ServingPlan plan = plan_of(options);
    progress("two pools of %.2f GiB, %u pages of %u layers; filling them",
             static_cast<double>(plan.pool_bytes()) / kGiB, plan.pool_pages, plan.layers);
    SecondProcess prefill("serving");
    SharedPool source(plan.pool_bytes());
    fill(source.data(), plan);
    prefill.channel().say("plan " + join(plan.words()));
    prefill.channel().say("pool " + source.name());
    ServingDecode decode(plan, source.data(), prefill.channel());

    progress("a first pass over all pages, which are new to the processes");
    const Round first = decode.run(kCoveringRound);
    report.add("serving.first_pass", static_cast<double>(first.bytes) / first.seconds / 1e9, "GB/s");
    decode.spoil();

    progress("%u rounds of %u rooms, %.2f GB each round", options.rounds, plan.rooms,
             static_cast<double>(plan.room_bytes()) * plan.rooms / 1e9);
    const Sum sum = run_rounds(decode, plan, options.rounds);
    prefill.finish();
    add_figures(plan, sum, report);
    if (sum.successes != sum.rooms || sum.sender_successes != sum.rooms || sum.wrong_pages != 0) {
        report.finish();
        fail(
            "%llu of %llu rooms ended in Success on the decode side and %llu on the prefill side, and %llu pages are "
            "wrong",
            static_cast<unsigned long long>(sum.successes), static_cast<unsigned long long>(sum.rooms),
            static_cast<unsigned long long>(sum.sender_successes), static_cast<unsigned long long>(sum.wrong_pages));
    }
}

} // namespace bench
