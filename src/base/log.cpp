// The log's state and its default sink. The sink runs under a mutex, which is what lets log_set promise that the
// earlier one has ended.
#include "base/log.h"

#include "base/config.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

namespace kvf {
namespace {

constexpr size_t kLineBytes = 2000;

// Plain storage without destructors: threads may log while the process exits.
std::mutex g_mutex;
kvf_log_fn g_fn = nullptr; // guarded by g_mutex, as is g_user
void *g_user = nullptr;
std::atomic<int32_t> g_level{0}; // 0: KVF_LOG was not read yet

// Another thread may have held the mutex at the fork, and the sink may be in the middle of anything.
void child_after_fork() {
    new (&g_mutex) std::mutex;
    g_fn = nullptr;
    g_user = nullptr;
}

[[maybe_unused]] const int g_registered = pthread_atfork(nullptr, nullptr, child_after_fork);

int32_t configured_level() noexcept {
    uint64_t level = KVF_LOG_WARN;
    try {
        // One that does not parse is kvf_engine_create's to report.
        if (!config_u64(ConfigKey::log, &level).ok())
            level = KVF_LOG_WARN;
    } catch (const std::bad_alloc &) {
        level = KVF_LOG_WARN;
    }
    return static_cast<int32_t>(level);
}

int32_t current_level() noexcept {
    int32_t level = g_level.load(std::memory_order_relaxed);
    if (level != 0)
        return level;
    const int32_t configured = configured_level();
    // Unless log_set came meanwhile, whose word counts.
    return g_level.compare_exchange_strong(level, configured, std::memory_order_relaxed) ? configured : level;
}

const char *level_name(int32_t level) {
    switch (level) {
        case KVF_LOG_ERROR:
            return "error";
        case KVF_LOG_WARN:
            return "warn";
        case KVF_LOG_INFO:
            return "info";
        default:
            return "debug";
    }
}

// One write per line, so that lines of several processes on one terminal do not mix.
void write_standard_error(int32_t level, const char *message) {
    char line[kLineBytes + 64];
    const int length = std::snprintf(line, sizeof line, "kvferry: %s: %s\n", level_name(level), message);
    if (length <= 0)
        return;
    ssize_t wrote = 0;
    do {
        wrote = write(STDERR_FILENO, line, static_cast<size_t>(length));
    } while (wrote < 0 && errno == EINTR);
}

// Ends the text at a character's boundary when it was cut in the middle of one.
void trim_partial_character(char *text, size_t length) {
    size_t begin = length;
    while (begin > 0 && (static_cast<unsigned char>(text[begin - 1]) & 0xc0) == 0x80)
        --begin;
    if (begin > 0 && (static_cast<unsigned char>(text[begin - 1]) & 0xc0) == 0xc0)
        text[begin - 1] = '\0';
}

} // namespace

void log(int32_t level, const char *format, ...) noexcept {
    if (!log_enabled(level))
        return;
    const int kept_errno = errno;
    char message[kLineBytes + 1];
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if (static_cast<size_t>(length) > kLineBytes)
        trim_partial_character(message, kLineBytes);
    for (char *at = message; *at != '\0'; ++at)
        if (static_cast<unsigned char>(*at) < 0x20 || *at == 0x7f)
            *at = ' ';
    {
        const std::lock_guard<std::mutex> guard(g_mutex);
        if (g_fn != nullptr)
            g_fn(g_user, level, message);
        else
            write_standard_error(level, message);
    }
    errno = kept_errno;
}

bool log_enabled(int32_t level) noexcept {
    return level <= current_level();
}

void log_set(kvf_log_fn fn, void *user, int32_t level) noexcept {
    const std::lock_guard<std::mutex> guard(g_mutex);
    g_fn = fn;
    g_user = user;
    g_level.store(level != 0 ? level : configured_level(), std::memory_order_relaxed);
}

} // namespace kvf
