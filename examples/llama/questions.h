// Prompts for the recall model with the answers that are true, made from a seed: as train_recall.py makes its texts.
#pragma once

#include <string>

#include "random.h"

namespace llama {

struct Question {
    std::string prompt;   // facts, maybe questions with their answers, the question
    std::string question; // the last one alone
    std::string answer;   // what the model should go on with
};

// The token that ends an answer is the line feed's.
constexpr char kAnswerEnd = '\n';

// At most most_bytes of prompt and answer.
Question make_question(Random &random, size_t most_bytes);

// One that people can check by eye.
Question sample_question();

} // namespace llama
