// Checkpoints that are none: what is refused, and what the refusal says.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "checkpoint.h"
#include "text.h"

namespace llama {
namespace {

using Header = std::array<int32_t, 7>;

// dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, max_seq_len
constexpr Header kSmall = {8, 12, 2, 4, 2, 5, 3};
constexpr size_t kSmallFloats = 5 * 8 + 2 * (8 + 8 * 8 + 4 * 8 + 4 * 8 + 8 * 8 + 8 + 3 * 8 * 12) + 8 + 2 * 3;

class CheckpointFile : public testing::Test {
  protected:
    void TearDown() override { std::remove(path_.c_str()); }

    std::string write(const Header &header, size_t floats, size_t more_bytes = 0) {
        std::vector<float> weights(floats);
        for (size_t i = 0; i < floats; ++i)
            weights[i] = static_cast<float>(i);
        const std::string more(more_bytes, 'x');
        std::FILE *file = std::fopen(path_.c_str(), "wb");
        std::fwrite(header.data(), sizeof(int32_t), header.size(), file);
        if (floats != 0)
            std::fwrite(weights.data(), sizeof(float), floats, file);
        std::fwrite(more.data(), 1, more.size(), file);
        std::fclose(file);
        return path_;
    }

    // What the refusal says behind the file's name; "" when there is none.
    std::string refusal(const Header &header, size_t floats = 0, size_t more_bytes = 0) {
        try {
            Checkpoint checkpoint(write(header, floats, more_bytes));
            return {};
        } catch (const Failure &failure) {
            const std::string sentence = failure.what();
            EXPECT_TRUE(sentence.starts_with(path_ + ": ")) << sentence;
            return sentence.substr(path_.size() + 2);
        }
    }

    const std::string path_ =
        (std::filesystem::path(testing::TempDir()) /
         (std::string("llama_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".bin"))
            .string();
};

TEST_F(CheckpointFile, weights_lie_in_the_order_of_the_format) {
    const Checkpoint checkpoint(write(kSmall, kSmallFloats));
    const Weights &weights = checkpoint.weights();
    EXPECT_EQ(checkpoint.config().kv_dim(), 4);
    EXPECT_EQ(*weights.embedding, 0);
    EXPECT_EQ(*weights.attention_norm, 40);
    EXPECT_EQ(*weights.wk, 40 + 2 * 8 + 2 * 64);
    EXPECT_EQ(*weights.final_norm, static_cast<float>(kSmallFloats - 6 - 8));
    EXPECT_EQ(weights.classifier, weights.embedding);
}

TEST_F(CheckpointFile, a_negative_vocabulary_size_has_a_classifier_of_its_own_at_the_end) {
    Header header = kSmall;
    header[5] = -header[5];
    const Checkpoint checkpoint(write(header, kSmallFloats + 5 * 8));
    EXPECT_EQ(checkpoint.config().vocab, 5);
    EXPECT_EQ(*checkpoint.weights().classifier, static_cast<float>(kSmallFloats));
}

TEST_F(CheckpointFile, a_file_of_another_size_is_refused_with_both_sizes) {
    const std::string expected = std::to_string(28 + 4 * kSmallFloats);
    EXPECT_NE(refusal(kSmall, kSmallFloats - 1).find("expected " + expected), std::string::npos);
    EXPECT_NE(refusal(kSmall, kSmallFloats, 1).find("has " + std::to_string(29 + 4 * kSmallFloats)), std::string::npos);
}

TEST_F(CheckpointFile, a_field_out_of_range_is_refused_by_its_name_and_value) {
    const std::array<const char *, 7> names = {"dim",        "hidden_dim", "n_layers",   "n_heads",
                                               "n_kv_heads", "vocab_size", "max_seq_len"};
    for (size_t field = 0; field < names.size(); ++field) {
        Header header = kSmall;
        header[field] = 0;
        EXPECT_NE(refusal(header).find(std::string(names[field]) + " is 0, expected 1 to "), std::string::npos);
        header[field] = INT32_MIN; // whose negation is no int32
        EXPECT_NE(refusal(header).find(std::string(names[field]) + " is "), std::string::npos);
    }
}

TEST_F(CheckpointFile, heads_that_do_not_divide_are_refused_with_both_values) {
    Header header = kSmall;
    header[3] = 3;
    EXPECT_EQ(refusal(header), "n_heads is 3, expected a divisor of dim, which is 8");
    header[3] = 4;
    header[4] = 3;
    EXPECT_EQ(refusal(header), "n_kv_heads is 3, expected a divisor of n_heads, which is 4");
    header[3] = header[4] = 8;
    EXPECT_EQ(refusal(header), "dim / n_heads is 1, expected an even number, as positions turn pairs of values");
}

TEST_F(CheckpointFile, a_file_shorter_than_a_header_or_absent_is_refused) {
    std::FILE *file = std::fopen(path_.c_str(), "wb");
    std::fwrite("short", 1, 5, file);
    std::fclose(file);
    EXPECT_THROW(Checkpoint{path_}, Failure);
    EXPECT_THROW(Checkpoint{path_ + ".absent"}, Failure);
}

} // namespace
} // namespace llama
