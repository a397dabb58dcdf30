// What the demo prints: answers, and the life of each room.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "router.h"

namespace llama {

// One room's request and what came of it.
struct Row {
    size_t prompt_tokens;
    Outcome outcome;
    std::string difference; // from the run in one process; "" for none
    std::string question;   // the last line asked; "" for a prompt that was given
    std::string answer;     // as decoded
    std::string truth;      // the answer expected

    bool right() const { return outcome.failure().empty() && difference.empty() && answer == truth; }
};

// Each question, its answer and whether it is the true one.
void show_answers(std::FILE *out, const std::vector<Row> &rows);

// When each room entered each state on both sides, and how fast its bytes moved.
void show_rooms(std::FILE *out, const std::vector<Row> &rows);

} // namespace llama
