// The recall model in one process: its answers are true, whatever pages the cache lies in.
#include <gtest/gtest.h>

#include "generate.h"
#include "questions.h"

namespace llama {
namespace {

class Recall : public testing::Test {
  protected:
    Llama model_{KVF_LLAMA_SOURCE_MODEL "/recall.bin"};
    Tokenizer tokenizer_{KVF_LLAMA_SOURCE_MODEL "/recall_tokenizer.bin", model_.config().vocab};
    Limit limit_{32, tokenizer_.encode("\n").back()};
};

TEST_F(Recall, questions_are_the_seeds_and_fit) {
    Random one(4), other(4), third(5);
    for (int i = 0; i < 200; ++i) {
        const Question question = make_question(one, 300);
        EXPECT_EQ(question.prompt, make_question(other, 300).prompt);
        EXPECT_TRUE(question.prompt.ends_with("\nQ: " + question.question + "\nA:"));
        EXPECT_TRUE(question.answer.starts_with(' ') && question.answer.ends_with(kAnswerEnd));
    }
    EXPECT_NE(make_question(one, 300).prompt, make_question(third, 300).prompt);
}

TEST_F(Recall, answers_are_true) {
    Random random(1);
    std::vector<Question> questions{sample_question()};
    while (questions.size() < 12)
        questions.push_back(make_question(random, 511));
    for (const Question &question : questions)
        EXPECT_EQ(tokenizer_.decode(generate(model_, tokenizer_.encode(question.prompt), limit_)), question.answer)
            << question.prompt;
}

TEST_F(Recall, the_cache_may_lie_in_any_pages_and_is_needed) {
    const Question question = sample_question();
    const std::vector<Token> prompt = tokenizer_.encode(question.prompt);
    std::vector<std::vector<float>> memory;
    const KvPool pool(model_.config(), 64, [&](size_t bytes) {
        memory.emplace_back(bytes / sizeof(float));
        return memory.back().data();
    });
    const std::vector<uint32_t> pages = IndexAllocator(64, 9).take(pages_for(prompt.size() + 32));
    uint32_t position = 0;
    for (const Token token : prompt)
        model_.forward(token, position++, pool, pages);
    const Token first = model_.next();

    // As a decode engine goes on: from the cache and the first token.
    const auto go_on = [&](std::span<const uint32_t> table) {
        std::vector<Token> out{first};
        uint32_t at = position;
        while (!is_last(out.back(), static_cast<uint32_t>(out.size()), limit_)) {
            model_.forward(out.back(), at++, pool, table);
            out.push_back(model_.next());
        }
        return tokenizer_.decode(out);
    };
    EXPECT_EQ(go_on(pages), question.answer);

    // Page 3 holds "in the museum".
    std::vector<uint32_t> without = pages;
    without[3] = IndexAllocator(64, 9).take(64).back(); // one of those not taken
    EXPECT_NE(go_on(without), question.answer);

    // A key carries its position, so the model itself does not mind where it stands.
    std::vector<uint32_t> swapped = pages;
    std::swap(swapped[1], swapped[4]);
    EXPECT_EQ(go_on(swapped), question.answer);
    EXPECT_NE(pool.digest(swapped, prompt.size()), pool.digest(pages, prompt.size()));
}

TEST_F(Recall, a_token_or_position_outside_the_model_is_refused) {
    std::vector<std::vector<float>> memory;
    const KvPool pool(model_.config(), 1, [&](size_t bytes) {
        memory.emplace_back(bytes / sizeof(float));
        return memory.back().data();
    });
    const std::vector<uint32_t> pages{0};
    EXPECT_THROW(model_.forward(259, 0, pool, pages), std::runtime_error);
    EXPECT_THROW(model_.forward(-1, 0, pool, pages), std::runtime_error);
    EXPECT_THROW(model_.forward(5, kPageTokens, pool, pages), std::runtime_error);
    EXPECT_THROW(model_.forward(5, 512, pool, pages), std::runtime_error);
}

} // namespace
} // namespace llama
