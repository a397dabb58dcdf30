// kvferry-sim: whole clusters in one thread on a simulated clock, network and transport, from seeds. A seed that
// violates a promise is printed; --seed replays it with its trace. Built with seeded faults, --fault switches one on
// and looks for the first seed that finds it.
#include "base/log.h"
#include "base/seeded_fault.h"
#include "base/status_text.h"
#include "scenario.h"

#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// The simulated plugins' one symbol finds its way here.
extern "C" __attribute__((visibility("default"))) int kvf_sim_plugin_query(const kvf_host *host, kvf_plugin *plugin) {
    return kvf::sim::fabric_query(host, plugin);
}

namespace {

struct Options {
    uint64_t first = 1;
    uint64_t seeds = 100;
    uint64_t seconds = 0; // 0: by seeds
    kvf::sim::ScenarioOptions scenario;
    bool fault = false; // one is switched on: success is to find it
};

bool switch_on(const std::string &wanted) {
#ifdef KVF_SEEDED_FAULTS
#define KVF_SWITCH_ON(name, what)                            \
    if (wanted == #name) {                                   \
        kvf::g_seeded_fault = kvf::SeededFault::name;        \
        std::printf("seeded fault %s: %s\n", #name, (what)); \
        return true;                                         \
    }
    KVF_SEEDED_FAULT_LIST(KVF_SWITCH_ON)
#undef KVF_SWITCH_ON
    std::fprintf(stderr, "kvferry-sim: there is no fault \"%s\"\n", wanted.c_str());
#else
    std::fprintf(stderr, "kvferry-sim: --fault %s: this one is built without faults\n", wanted.c_str());
#endif
    return false;
}

bool parse(int count, char **words, Options *options) {
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        const auto value = [&]() -> uint64_t { return i + 1 < count ? std::strtoull(words[++i], nullptr, 0) : 0; };
        if (word == "--seed") {
            options->first = value();
            options->seeds = 1;
            options->scenario.traced = true;
        } else if (word == "--first") {
            options->first = value();
        } else if (word == "--seeds") {
            options->seeds = value();
        } else if (word == "--seconds") {
            options->seconds = value();
        } else if (word == "--stormy") {
            options->scenario.stormy = true;
        } else if (word == "--fault") {
            options->fault = true;
            if (!switch_on(i + 1 < count ? words[++i] : ""))
                return false;
        } else if (word == "--requests") {
            options->scenario.requests = static_cast<uint32_t>(value());
        } else {
            std::fprintf(
                stderr,
                "kvferry-sim: \"%s\": expected --seeds N, --first N, --seed N, --seconds S, --requests N, --stormy or "
                "--fault NAME\n",
                word.c_str());
            return false;
        }
    }
    return true;
}

} // namespace

#ifdef KVF_SEEDED_FAULTS
namespace kvf {
SeededFault g_seeded_fault = SeededFault::none;
}
#endif

int main(int count, char **words) {
    Options options;
    if (!parse(count, words, &options))
        return 2;
    setenv("KVF_PLUGIN_PATH", KVF_SIM_PLUGINS, 1);
    kvf::log_set(nullptr, nullptr, options.scenario.traced ? KVF_LOG_DEBUG : KVF_LOG_ERROR);
    uint64_t seeds = 0;
    uint64_t rooms = 0;
    uint64_t successes = 0;
    uint64_t violations = 0;
    std::map<int, uint64_t> codes;
    const auto began = std::chrono::steady_clock::now();
    for (uint64_t seed = options.first;; ++seed) {
        const bool over = options.seconds != 0
                              ? std::chrono::steady_clock::now() - began > std::chrono::seconds(options.seconds)
                              : seeds == options.seeds;
        if (over)
            break;
        const kvf::sim::Outcome outcome = kvf::sim::run_seed(seed, options.scenario);
        ++seeds;
        rooms += outcome.rooms;
        successes += outcome.successes;
        violations += outcome.violations;
        for (const auto &[code, times] : outcome.codes)
            codes[code] += times;
        if (outcome.violations != 0 && !options.scenario.traced) {
            std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), outcome.first_violation.c_str());
            std::fflush(stdout);
        }
        if (options.fault && violations != 0)
            break;
    }
    for (const auto &[code, times] : codes)
        std::printf("%-28s %llu\n", code == 0 ? "Success" : kvf::status_name(code),
                    static_cast<unsigned long long>(times));
    std::printf("seeds %llu rooms %llu violations %llu\n", static_cast<unsigned long long>(seeds),
                static_cast<unsigned long long>(rooms), static_cast<unsigned long long>(violations));
    return (violations == 0) != options.fault ? 0 : 1;
}
