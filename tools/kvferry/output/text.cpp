#include "output/text.h"

#include <kvferry/kvferry.h>

#include <cstdarg>
#include <cstdio>

namespace tool {

namespace {

std::string format_list(const char *format, va_list values) {
    va_list again;
    va_copy(again, values);
    const int length = std::vsnprintf(nullptr, 0, format, again);
    va_end(again);
    std::string out(length > 0 ? static_cast<size_t>(length) : 0, '\0');
    std::vsnprintf(out.data(), out.size() + 1, format, values);
    return out;
}

} // namespace

std::string text(const char *format, ...) {
    va_list values;
    va_start(values, format);
    std::string out = format_list(format, values);
    va_end(values);
    return out;
}

void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    const std::string sentence = format_list(format, values);
    va_end(values);
    throw Failure(sentence);
}

int check(int status, const char *call) {
    if (status < 0)
        fail("%s: %s (%s)", call, kvf_last_error(), kvf_status_name(status));
    return status;
}

} // namespace tool
