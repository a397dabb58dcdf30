// Both kinds of vocabulary: one token a byte, and pieces that were learned with the space before them.
#include "tokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "text.h"

namespace llama {
namespace {

using Piece = std::pair<std::string, float>; // and its score

class TokenizerFile : public testing::Test {
  protected:
    void TearDown() override { std::remove(path_.c_str()); }

    const std::string &write(const std::vector<Piece> &pieces, int32_t longest = 16) {
        std::FILE *file = std::fopen(path_.c_str(), "wb");
        std::fwrite(&longest, sizeof longest, 1, file);
        for (const auto &[piece, score] : pieces) {
            const auto length = static_cast<int32_t>(piece.size());
            std::fwrite(&score, sizeof score, 1, file);
            std::fwrite(&length, sizeof length, 1, file);
            std::fwrite(piece.data(), 1, piece.size(), file);
        }
        std::fclose(file);
        return path_;
    }

    const std::string path_ =
        (std::filesystem::path(testing::TempDir()) /
         (std::string("llama_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".tok"))
            .string();
};

// The three special tokens and one of the form <0x0A> for each byte.
std::vector<Piece> byte_pieces() {
    std::vector<Piece> out{{"<unk>", 0}, {"\n<s>\n", 0}, {"\n</s>\n", 0}};
    for (int byte = 0; byte < 256; ++byte)
        out.emplace_back(text("<0x%02X>", byte), 0.0F);
    return out;
}

std::vector<Piece> with(std::vector<Piece> pieces, const std::vector<Piece> &more) {
    pieces.insert(pieces.end(), more.begin(), more.end());
    return pieces;
}

std::string all_bytes() {
    std::string out;
    for (int byte = 255; byte >= 0; --byte)
        out.push_back(static_cast<char>(byte));
    return out;
}

TEST_F(TokenizerFile, the_recall_vocabulary_has_a_token_for_each_byte_and_no_space_in_front) {
    const Tokenizer tokenizer(KVF_LLAMA_SOURCE_MODEL "/recall_tokenizer.bin", 259);
    const std::string text = " Wo?\n" + all_bytes();
    std::vector<Token> expected{kBegin};
    for (const char c : text)
        expected.push_back(kFirstByte + static_cast<unsigned char>(c));
    EXPECT_EQ(tokenizer.encode(text), expected);
    EXPECT_EQ(tokenizer.decode(expected), text);
    EXPECT_EQ(tokenizer.encode(""), std::vector<Token>{kBegin});
}

TEST_F(TokenizerFile, the_best_pair_is_joined_first_and_the_leftmost_of_equals) {
    const auto pieces =
        with(byte_pieces(), {{" ", 0}, {"a", 0}, {"b", 0}, {"ab", -1}, {"ba", -2}, {"aa", -1}, {" a", -3}});
    const Tokenizer tokenizer(write(pieces), static_cast<int32_t>(pieces.size()));
    const Token space = 259, a = 260, b = 261, ab = 262, aa = 264, space_a = 265;
    EXPECT_EQ(tokenizer.encode("bab"), (std::vector<Token>{kBegin, space, b, ab}));
    EXPECT_EQ(tokenizer.encode("aaa"), (std::vector<Token>{kBegin, space, aa, a}));
    EXPECT_EQ(tokenizer.encode("a"), (std::vector<Token>{kBegin, space_a}));
    EXPECT_EQ(tokenizer.encode("ac"), (std::vector<Token>{kBegin, space_a, kFirstByte + 'c'}));
}

TEST_F(TokenizerFile, a_vocabulary_of_words_gets_a_space_in_front_and_loses_it_again) {
    const auto pieces = with(byte_pieces(), {{" ", 0}, {"h", 0}, {"\xc3\xab", 0}, {" h", -1}, {" \xc3\xab", -2}});
    const Tokenizer tokenizer(write(pieces), static_cast<int32_t>(pieces.size()));
    EXPECT_EQ(tokenizer.encode("h"), (std::vector<Token>{kBegin, 262}));
    EXPECT_EQ(tokenizer.encode("\xc3\xab"), (std::vector<Token>{kBegin, 263}));
    EXPECT_EQ(tokenizer.encode(""), std::vector<Token>{kBegin});
    for (const std::string &text : {std::string(" h h"), std::string("\xc3\xab \xe5\x85\xac"), all_bytes()})
        EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST_F(TokenizerFile, begin_and_end_have_no_text) {
    const Tokenizer tokenizer(KVF_LLAMA_SOURCE_MODEL "/recall_tokenizer.bin", 259);
    EXPECT_EQ(tokenizer.decode(std::vector<Token>{kBegin, kFirstByte + 'x', kEnd}), "x");
    EXPECT_THROW(tokenizer.decode(std::vector<Token>{kBegin, 259}), Failure);
}

TEST_F(TokenizerFile, a_file_for_another_vocabulary_is_refused) {
    const std::string &path = write(byte_pieces());
    EXPECT_THROW(Tokenizer(path, 258), Failure);
    EXPECT_THROW(Tokenizer(path, 260), Failure);
    EXPECT_NO_THROW(Tokenizer(path, 259));
    EXPECT_THROW(Tokenizer(write(byte_pieces(), 3), 259), Failure);
}

TEST_F(TokenizerFile, a_byte_without_a_token_is_refused_by_name) {
    const Tokenizer tokenizer(write({{"<unk>", 0}, {"\n<s>\n", 0}, {"\n</s>\n", 0}, {"a", 0}}), 4);
    try {
        tokenizer.encode("ab");
        FAIL();
    } catch (const Failure &failure) {
        EXPECT_STREQ(failure.what(), "byte 0x62 of the text has no token: the vocabulary has 4");
    }
}

} // namespace
} // namespace llama
