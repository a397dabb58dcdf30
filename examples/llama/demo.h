// The demonstration: prompts go through a prefill and a decode process as concurrent rooms, and every token that comes
// out is compared with a run in one process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace llama {

// All have a default, so that a caller may name those that it sets: DemoOptions{.rooms = 8}.
struct DemoOptions {
    std::string model{};                 // checkpoint; "": the recall model
    std::string tokenizer{};             // to be given with a model
    std::optional<std::string> prompt{}; // to go on with; without it, questions with known answers
    uint32_t tokens = 0;                 // most to generate for a prompt; 0: 256, or 32 for an answer
    uint32_t rooms = 24;                 // questions, all at the same time
    uint64_t seed = 1;                   // of the questions and of the order of pages
    std::string transport = "shm";
    std::string transport_options{}; // "key=value,..."
    uint32_t chunk_tokens = 64;      // prefilled and sent at a time; whole pages of 16
    uint64_t pool_bytes = 256 << 20; // of cache a side at most; rooms beyond it wait for pages
    int silence_ms = 60000;          // without a word from either process, after which the demo gives up
};

// With a prompt, standard output gets the prompt and what the model goes on with, and nothing else; what is told of
// the run goes to standard error. Without one everything goes to standard output, failures to standard error.
// Returns the exit status: 0 when every token was the one that a run in one process gives, and every answer true.
int run_demo(const DemoOptions &options);

} // namespace llama
