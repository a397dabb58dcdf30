#include "map_copy.h"

#include <kvferry/plugin.h>

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace shm {
namespace {

// From here on a copy goes past the caches. The C library does so only for pieces of megabytes; a cache of this kind is
// moved in pages of kilobytes and read much later, and a store that fetches the line before it overwrites it costs a
// third of the bandwidth. Large pieces gain half, scattered pages of 4 KiB a tenth, and a quarter more by prefetching
// the next one.
constexpr size_t kStreamFrom = 4 << 10;

// What the kernel maps around a page that is read for the first time (fault_around_bytes), aligned to the same.
constexpr uintptr_t kFaultAround = 64 << 10;

// A page that is first written to costs a fault of its own, one that is first read brings its neighbours along, all of
// them writable. Reading a byte of each neighbourhood makes the first copy into a mapping about 2.5 times faster, and
// costs later ones nothing that can be measured.
void touch(const char *begin, size_t length) {
    const char *const end = begin + length;
    while (begin < end) {
        static_cast<void>(*static_cast<const volatile char *>(begin));
        begin += kFaultAround - reinterpret_cast<uintptr_t>(begin) % kFaultAround;
    }
}

#if defined(__SSE2__)
constexpr size_t kLine = 64;

void copy_line(char *to, const char *from) {
    const auto *source = reinterpret_cast<const __m128i *>(from);
    auto *target = reinterpret_cast<__m128i *>(to);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
}

void copy_lines(char *to, const char *from, size_t lines, const char *next) {
    size_t line = 0;
    if (next != nullptr)
        for (; line < lines && line < kStreamFrom / kLine; ++line) {
            _mm_prefetch(next + line * kLine, _MM_HINT_T0);
            copy_line(to + line * kLine, from + line * kLine);
        }
    for (; line < lines; ++line)
        copy_line(to + line * kLine, from + line * kLine);
}

void stream(char *to, const char *from, size_t length, const char *next) {
    const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
    memcpy(to, from, head);
    const size_t lines = (length - head) / kLine;
    copy_lines(to + head, from + head, lines, next);
    const size_t done = head + lines * kLine;
    memcpy(to + done, from + done, length - done);
    _mm_sfence(); // before anything that says the copy is there
}
#endif

void copy(char *to, const char *from, size_t length, [[maybe_unused]] const char *next) {
#if defined(__SSE2__)
    if (length >= kStreamFrom)
        return stream(to, from, length, next);
#endif
    memcpy(to, from, length);
}

} // namespace

void copy_mapped(uint32_t op, char *local, char *remote, size_t length, const char *next) {
    if (op == KVF_OP_READ) {
        copy(local, remote, length, next);
        return;
    }
    touch(remote, length);
    copy(remote, local, length, next);
}

} // namespace shm
