// A request run from its prompt to its last token in one process: what a split run must give too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llama.h"

namespace llama {

constexpr Token kNoStop = -1;

// When a sequence is over.
struct Limit {
    uint32_t max_tokens; // to generate
    Token stop;          // ends the sequence, beside kBegin and kEnd; kNoStop: none
};

// Whether the token is the sequence's last one, when it is the count-th generated.
bool is_last(Token token, uint32_t count, const Limit &limit);

// Positions that a sequence writes: the last token generated is never run.
constexpr uint32_t positions_for(size_t prompt_tokens, uint32_t max_tokens) {
    return static_cast<uint32_t>(prompt_tokens) + max_tokens - 1;
}

// The greedy tokens after the prompt, the one that ends the sequence included.
std::vector<Token> generate(Llama &model, std::span<const Token> prompt, const Limit &limit);

} // namespace llama
