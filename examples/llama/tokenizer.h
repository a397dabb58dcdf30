// Text to tokens and back, with a vocabulary in the llama2.c tokenizer format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llama {

using Token = int32_t;

constexpr Token kBegin = 1;     // begin of a sequence (BOS)
constexpr Token kEnd = 2;       // end of a sequence (EOS)
constexpr Token kFirstByte = 3; // the token of byte b is kFirstByte + b

// The vocabulary of a sentencepiece model has pieces that begin with a space (" the"): it learned words with the space
// before them, so a text gets a space in front when it is encoded, and loses it when it is decoded. A vocabulary in
// which no longer piece begins with a space (one token a byte, say) learned text as it stands, and gets none.
class Tokenizer {
  public:
    // Fails, naming the file, the token and the values, when it does not hold exactly vocab tokens.
    Tokenizer(const std::string &path, int32_t vocab);

    // kBegin and the tokens of the text: its characters, or their bytes where the vocabulary lacks them, joined for as
    // long as two neighbours make a piece, best score first.
    std::vector<Token> encode(std::string_view text) const;

    // The text of a sequence that encode began. kBegin and kEnd have no text.
    std::string decode(std::span<const Token> tokens) const;

  private:
    void append_character(std::string_view character, std::vector<Token> &tokens) const;
    void merge(std::vector<Token> &tokens) const;

    std::vector<std::string> pieces_;
    std::vector<float> scores_;
    std::unordered_map<std::string, Token> ids_;
    bool space_before_text_ = false;
};

} // namespace llama
