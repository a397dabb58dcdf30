#include "status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace shm {
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

Status fail(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    Status out(code, format_va(format, arguments));
    va_end(arguments);
    return out;
}

const char *errno_text(int error) {
    // The GNU strerror_r, which returns its own static text for every error that it knows, so the buffer holds nothing
    // but the text of a number that is no error.
    static thread_local char buffer[64];
    return strerror_r(error, buffer, sizeof buffer);
}

} // namespace shm
