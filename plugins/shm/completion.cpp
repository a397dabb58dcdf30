#include "completion.h"

#include <cstdarg>
#include <cstdio>

namespace shm {

void Completion::begin(uint64_t token) {
    token_ = token;
    bytes_ = 0;
    status_ = KVF_OK;
}

void Completion::fail(int32_t status, const char *format, ...) {
    if (!ok())
        return;
    status_ = status;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message_.data(), message_.size(), format, arguments);
    va_end(arguments);
}

kvf_completion Completion::report() const {
    return {token_, status_, 0, bytes_, ok() ? nullptr : message_.data()};
}

} // namespace shm
