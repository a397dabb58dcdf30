// `kvferry demo`: the options of the example engine's demonstration.
#include "demo.h"

#include <CLI/Option.hpp>
#include <memory>

#include "commands.h"

namespace tool {

void add_demo(CLI::App &app, Run &run) {
    CLI::App *command = app.add_subcommand("demo", "A small Llama, prefilled in one process and decoded in another");
    const auto options = std::make_shared<llama::DemoOptions>();
    command->add_option("--model", options->model, "Checkpoint, as llama2.c writes them");
    command->add_option("--tokenizer", options->tokenizer, "The checkpoint's tokenizer");
    command->add_option("--prompt", options->prompt, "Text to go on with, in place of questions with known answers");
    command->add_option("--tokens", options->tokens, "Most to generate for a prompt or an answer");
    command->add_option("--rooms", options->rooms, "Questions, all at the same time")->capture_default_str();
    command->add_option("--seed", options->seed, "Of the questions and of the order of pages")->capture_default_str();
    command->add_option("--transport", options->transport, "Transport plugin")->capture_default_str();
    command->add_option("--transport-options", options->transport_options, "Its options, \"key=value,...\"");
    command->add_option("--chunk-tokens", options->chunk_tokens, "Prefilled and sent at a time")->capture_default_str();
    command->footer(
        "The built-in model answers questions about its recall texts and no other prompt: for --prompt give a\n"
        "--model and its --tokenizer.");
    command->callback([&run, options] { run = [options] { return llama::run_demo(*options); }; });
}

} // namespace tool
