#include "tokenizer.h"

#include <charconv>
#include <cstring>

#include "mapped_file.h"
#include "text.h"

namespace llama {
namespace {

// Reads the file's values in turn; fails at the first that is not there whole.
class Cursor {
  public:
    Cursor(const std::string &path, const MappedFile &file) : path_(path), file_(file) {}

    template <typename T>
    T value(const char *name) {
        T out;
        std::memcpy(&out, bytes(sizeof out, name), sizeof out);
        return out;
    }

    const char *bytes(size_t count, const char *name) {
        if (count > left())
            fail("%s: ends at byte %zu, expected %zu bytes of %s at byte %zu", path_.c_str(), file_.size(), count, name,
                 at_);
        const char *out = file_.data() + at_;
        at_ += count;
        return out;
    }

    size_t left() const { return file_.size() - at_; }

  private:
    const std::string &path_;
    const MappedFile &file_;
    size_t at_ = 0;
};

// The byte that a piece of the form <0x0A> stands for, or -1.
int byte_of(std::string_view piece) {
    if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>')
        return -1;
    int byte = -1;
    const auto result = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
    return result.ptr == piece.data() + 5 ? byte : -1;
}

// Bytes of the UTF-8 character that text begins with; what is not UTF-8 is taken byte by byte.
size_t character_size(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    for (size_t i = 1; i < size; ++i) {
        if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
            return 1;
    }
    return size;
}

} // namespace

Tokenizer::Tokenizer(const std::string &path, int32_t vocab) {
    const MappedFile file(path);
    Cursor cursor(path, file);
    const auto longest = cursor.value<int32_t>("max_token_length");
    for (Token id = 0; id < vocab; ++id) {
        const std::string name = text("token %d of %d", id, vocab);
        scores_.push_back(cursor.value<float>(name.c_str()));
        const auto length = cursor.value<int32_t>(name.c_str());
        if (length < 0 || length > longest)
            fail("%s: %s has length %d, expected 0 to max_token_length, which is %d", path.c_str(), name.c_str(),
                 length, longest);
        const auto size = static_cast<size_t>(length);
        pieces_.emplace_back(cursor.bytes(size, name.c_str()), size);
        ids_.emplace(pieces_.back(), id);
        space_before_text_ = space_before_text_ || (size > 1 && pieces_.back()[0] == ' ');
    }
    if (cursor.left() != 0)
        fail("%s: has %zu bytes behind token %d, expected none: the model's vocabulary has %d tokens", path.c_str(),
             cursor.left(), vocab - 1, vocab);
}

std::vector<Token> Tokenizer::encode(std::string_view text) const {
    std::vector<Token> tokens{kBegin};
    if (space_before_text_ && !text.empty())
        append_character(" ", tokens);
    while (!text.empty()) {
        const size_t size = character_size(text);
        append_character(text.substr(0, size), tokens);
        text.remove_prefix(size);
    }
    merge(tokens);
    return tokens;
}

void Tokenizer::append_character(std::string_view character, std::vector<Token> &tokens) const {
    if (const auto found = ids_.find(std::string(character)); found != ids_.end()) {
        tokens.push_back(found->second);
        return;
    }
    for (const char c : character) {
        const Token token = kFirstByte + static_cast<unsigned char>(c);
        if (static_cast<size_t>(token) >= pieces_.size())
            fail("byte 0x%02x of the text has no token: the vocabulary has %zu", static_cast<unsigned char>(c),
                 pieces_.size());
        tokens.push_back(token);
    }
}

void Tokenizer::merge(std::vector<Token> &tokens) const {
    while (true) {
        size_t best = 0;
        Token joined = -1;
        for (size_t i = 1; i + 1 < tokens.size(); ++i) {
            const auto left = static_cast<size_t>(tokens[i]), right = static_cast<size_t>(tokens[i + 1]);
            const auto found = ids_.find(pieces_[left] + pieces_[right]);
            if (found == ids_.end())
                continue;
            if (joined < 0 || scores_[static_cast<size_t>(found->second)] > scores_[static_cast<size_t>(joined)]) {
                best = i;
                joined = found->second;
            }
        }
        if (joined < 0)
            return;
        tokens[best] = joined;
        tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
    std::string out;
    Token previous = -1;
    for (const Token token : tokens) {
        if (token < 0 || static_cast<size_t>(token) >= pieces_.size())
            fail("token %d is outside the vocabulary, which has %zu", token, pieces_.size());
        std::string_view piece = pieces_[static_cast<size_t>(token)];
        if (previous == kBegin && space_before_text_ && piece.starts_with(' '))
            piece.remove_prefix(1);
        previous = token;
        if (token == kBegin || token == kEnd)
            continue;
        if (const int byte = byte_of(piece); byte >= 0)
            out.push_back(static_cast<char>(byte));
        else
            out.append(piece);
    }
    return out;
}

} // namespace llama
