// `kvferry bootstrap`: the bootstrap server alone, until a signal ends it.
#include <kvferry/kvferry.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "commands.h"
#include "output/text.h"

namespace tool {

namespace {

int serve(const std::string &listen) {
    // Blocked before the server starts its thread, which then leaves them to this one as well.
    sigset_t endings;
    sigemptyset(&endings);
    sigaddset(&endings, SIGINT);
    sigaddset(&endings, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &endings, nullptr);

    kvf_bootstrap_config config{};
    config.struct_size = sizeof config;
    config.listen = listen.c_str();
    kvf_bootstrap *started = nullptr;
    check(kvf_bootstrap_start(&config, &started), "kvf_bootstrap_start");
    const std::unique_ptr<kvf_bootstrap, int (*)(kvf_bootstrap *)> bootstrap(started, kvf_bootstrap_stop);
    // Whoever started this reads the port from here, perhaps through a pipe.
    std::printf("%s\n", kvf_bootstrap_address(started));
    std::fflush(stdout);

    int signal = 0;
    sigwait(&endings, &signal);
    std::fprintf(stderr, "kvferry bootstrap: ended by %s\n", signal == SIGINT ? "SIGINT" : "SIGTERM");
    return 0;
}

} // namespace

void add_bootstrap(CLI::App &app, Run &run) {
    CLI::App *command = app.add_subcommand("bootstrap", "The bootstrap server alone, until SIGINT or SIGTERM");
    const auto listen = std::make_shared<std::string>("127.0.0.1:0");
    command->add_option("--listen", *listen, "host:port to listen at; port 0 is any, the one taken is printed")
        ->capture_default_str();
    command->callback([&run, listen] { run = [listen] { return serve(*listen); }; });
}

} // namespace tool
