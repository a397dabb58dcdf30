// The command `kvferry`: reads the command line, runs one of the commands and prints what failed.
#include <kvferry/kvferry.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "commands.h"

int main(int argc, char **argv) {
    tool::Run run;
    CLI::App app{"kvferry carries KV caches between serving engines.", "kvferry"};
    try {
        app.set_version_flag("--version", kvf_version_string());
        app.require_subcommand(1);
        tool::add_info(app, run);
        tool::add_bootstrap(app, run);
#ifdef KVF_WITH_DEMO
        tool::add_demo(app, run);
#endif
        tool::add_bench(app, run);
        app.parse(argc, argv);
        return run();
    } catch (const CLI::RequiredError &error) {
        // A word that is no command is missed as one; what was said helps more.
        const std::vector<std::string> unknown = app.remaining(true);
        if (unknown.empty())
            return app.exit(error);
        std::fprintf(stderr, "\"%s\" is not known\nRun with --help for more information.\n", unknown.front().c_str());
        return error.get_exit_code();
    } catch (const CLI::ParseError &error) {
        return app.exit(error);
    } catch (const std::exception &error) {
        std::fflush(stdout);
        std::fprintf(stderr, "kvferry: %s\n", error.what());
        return 1;
    }
}
