// The process's log: a level, and a sink that lines go to one at a time. Lines are for people; what a caller must
// know is returned to it as a status.
#pragma once

#include <kvferry/kvferry.h>

#include <cstdint>

namespace kvf {

// One line, worded as printf does, without a newline. Control characters are replaced, as text of a peer may be in it;
// what is longer than 2000 bytes is cut. Never throws, never allocates. Any thread.
[[gnu::format(printf, 2, 3)]] void log(int32_t level, const char *format, ...) noexcept;

// Whether a line of that level goes anywhere; for callers whose arguments are dear.
bool log_enabled(int32_t level) noexcept;

// Replaces the sink; a null fn restores standard error. level 0: the one of KVF_LOG. When it returns, the earlier fn
// is not running and won't be called again. In a child after fork lines go to standard error until it is called there.
void log_set(kvf_log_fn fn, void *user, int32_t level) noexcept;

} // namespace kvf
