// Text of strangers, made fit to be shown.
#include "control/codec.h"

namespace kvf {
namespace {

// Bytes of the UTF-8 character at the front, 0 when there is none.
size_t character(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80)
        return 1;
    const size_t size = first >= 0xf0 ? 4 : (first >= 0xe0 ? 3 : 2);
    if (first < 0xc2 || first > 0xf4 || text.size() < size)
        return 0;
    for (size_t i = 1; i < size; ++i)
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
    // Overlong forms, surrogates, and what is beyond the last code point.
    const unsigned char second = byte(1);
    const bool bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return bad ? 0 : size;
}

} // namespace

std::string clean_text(std::string_view text, size_t most) {
    std::string out;
    out.reserve(text.size() < most ? text.size() : most);
    while (!text.empty() && out.size() < most) {
        const size_t size = character(text);
        const auto first = static_cast<unsigned char>(text[0]);
        if (size == 0 || first < 0x20 || first == 0x7f) {
            out += '?';
            text.remove_prefix(1);
            continue;
        }
        if (out.size() + size > most)
            break;
        out.append(text.substr(0, size));
        text.remove_prefix(size);
    }
    return out;
}

} // namespace kvf
