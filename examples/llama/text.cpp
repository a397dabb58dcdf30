#include "text.h"

#include <cstdarg>
#include <cstdio>

namespace llama {
namespace {

std::string format_va(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, format, again);
    va_end(again);
    if (length <= 0)
        return {};
    std::string out(static_cast<size_t>(length), '\0');
    std::vsnprintf(out.data(), out.size() + 1, format, arguments);
    return out;
}

} // namespace

std::string text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::string out = format_va(format, arguments);
    va_end(arguments);
    return out;
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::string sentence = format_va(format, arguments);
    va_end(arguments);
    throw Failure(sentence);
}

} // namespace llama
