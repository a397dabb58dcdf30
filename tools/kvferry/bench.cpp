// `kvferry bench`: the options of each benchmark, and the second process that some of them start.
#include <memory>
#include <string>

#include "benchmarks.h"
#include "commands.h"

namespace tool {
namespace {

// Adds a benchmark and the options that all have; the caller adds its own.
template <typename Options>
CLI::App *add(CLI::App *bench, Run &run, const char *name, const char *description,
              const std::shared_ptr<Options> &options, void (*benchmark)(const Options &, bench::Report &)) {
    CLI::App *command = bench->add_subcommand(name, description);
    const auto as_json = std::make_shared<bool>(false);
    command->add_flag("--json", *as_json, "A JSON object a line, in place of a table");
    command->add_flag("--quick", options->quick, "Small and short, to see that it works; its figures mean nothing");
    command->callback([&run, as_json, options, benchmark] {
        run = [as_json, options, benchmark] {
            bench::Report report(*as_json);
            benchmark(*options, report);
            report.finish();
            return 0;
        };
    });
    return command;
}

void add_serving(CLI::App *bench, Run &run) {
    const auto options = std::make_shared<bench::ServingOptions>();
    CLI::App *command = add(bench, run, "serving", "Rooms of a model in service, all at the same time, and their pages",
                            options, bench::run_serving);
    command->add_option("--rooms", options->rooms, "In flight at the same time")->capture_default_str();
    command->add_option("--tokens", options->tokens, "Of each room")->capture_default_str();
    command->add_option("--layers", options->layers, "Of the cache, 576 bytes a token each")->capture_default_str();
    command->add_option("--pool-gib", options->pool_gib, "Of each side; 0: 4, or what the machine has to spare")
        ->capture_default_str();
    command->add_option("--rounds", options->rounds, "0: 40 of one room, else 1")->capture_default_str();
    command->add_option("--shards", options->shards, "Of each engine; 0: as it chooses")->capture_default_str();
    command->add_option("--seed", options->seed, "Of the order of pages")->capture_default_str();
}

} // namespace

void add_bench(CLI::App &app, Run &run) {
    CLI::App *bench = app.add_subcommand("bench", "Benchmarks, each beside what it is compared to");
    bench->require_subcommand(1);

    add(bench, run, "poll", "What a look at a room costs", std::make_shared<bench::PollOptions>(), bench::run_poll);

    const auto enqueue = std::make_shared<bench::EnqueueOptions>();
    add(bench, run, "enqueue", "What handing over a chunk costs", enqueue, bench::run_enqueue)
        ->add_option("--shards", enqueue->shards, "Of the engine that sends; 0: as it chooses")
        ->capture_default_str();

    const auto rooms = std::make_shared<bench::RoomsOptions>();
    CLI::App *command = add(bench, run, "rooms", "Rooms a second, and how long one takes", rooms, bench::run_rooms);
    command->add_option("--shards", rooms->shards, "Of each engine; 0: as it chooses")->capture_default_str();
    command->add_option("--in-flight", rooms->in_flight, "Rooms at the same time")
        ->check(CLI::Range(1u, 65536u))
        ->capture_default_str();

    const auto shm = std::make_shared<bench::ShmOptions>();
    add(bench, run, "shm", "Bandwidth between two processes", shm, bench::run_shm)
        ->add_option("--pool-mib", shm->pool_mib, "Of each pool")
        ->check(CLI::Range(16u, 65536u))
        ->capture_default_str();

    add_serving(bench, run);

    // Not for people: it is in no list.
    const auto job = std::make_shared<std::string>();
    const auto parent = std::make_shared<int>(0);
    CLI::App *second = app.add_subcommand("bench-second-process")->group("");
    second->add_option("job", *job)->required();
    second->add_option("parent", *parent)->required();
    second->callback([&run, job, parent] { run = [job, parent] { return bench::run_second_process(*job, *parent); }; });
}

} // namespace tool
