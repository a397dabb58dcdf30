#include "base/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

namespace kvf {
namespace {

thread_local std::string t_sentence;

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

Status fail_system(int error, const std::string &what) {
    char buffer[128];
    // The GNU strerror_r, which returns the text and may not use the buffer.
    return {KVF_ERR_SYSTEM, what + ": " + strerror_r(error, buffer, sizeof buffer)};
}

int tell(const Status &status) noexcept {
    if (status.ok())
        return KVF_OK;
    try {
        t_sentence = status.sentence();
    } catch (const std::bad_alloc &) {
        t_sentence.clear();
    }
    return status.code();
}

const std::string &last_sentence() {
    return t_sentence;
}

} // namespace kvf
