// The commands of `kvferry`, each of its own file. Adding one to the application says which options it takes; what it
// leaves behind in `run` is called when the command line asked for it, and gives the exit status.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace tool {

using Run = std::function<int()>;

void add_info(CLI::App &app, Run &run);
void add_bootstrap(CLI::App &app, Run &run);
void add_bench(CLI::App &app, Run &run);
void add_demo(CLI::App &app, Run &run);

} // namespace tool
