#include "map_copy.h"

#include <kvferry/plugin.h>

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
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

// Copies so many lines past the caches, and prefetches as many from next, if that is not null. The wider a store is,
// the fewer of them wait for their line to be whole: stores of 64 bytes give scattered pages of 4 KiB a quarter more
// bandwidth than those of 16, stores of 32 a sixth, and large pieces a tenth.
using CopyLines = void (*)(char *to, const char *from, size_t lines, const char *next);

[[gnu::target("avx512f")]] void copy_lines_by_64(char *to, const char *from, size_t lines, const char *next) {
    for (size_t at = 0; at < lines * kLine; at += kLine) {
        if (next != nullptr)
            _mm_prefetch(next + at, _MM_HINT_T0);
        _mm512_stream_si512(reinterpret_cast<__m512i *>(to + at), _mm512_loadu_si512(from + at));
    }
}

[[gnu::target("avx")]] void copy_lines_by_32(char *to, const char *from, size_t lines, const char *next) {
    for (size_t at = 0; at < lines * kLine; at += kLine) {
        if (next != nullptr)
            _mm_prefetch(next + at, _MM_HINT_T0);
        const auto *source = reinterpret_cast<const __m256i *>(from + at);
        auto *target = reinterpret_cast<__m256i *>(to + at);
        const __m256i a = _mm256_loadu_si256(source);
        const __m256i b = _mm256_loadu_si256(source + 1);
        _mm256_stream_si256(target, a);
        _mm256_stream_si256(target + 1, b);
    }
}

void copy_lines_by_16(char *to, const char *from, size_t lines, const char *next) {
    for (size_t at = 0; at < lines * kLine; at += kLine) {
        if (next != nullptr)
            _mm_prefetch(next + at, _MM_HINT_T0);
        const auto *source = reinterpret_cast<const __m128i *>(from + at);
        auto *target = reinterpret_cast<__m128i *>(to + at);
        const __m128i a = _mm_loadu_si128(source);
        const __m128i b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2);
        const __m128i d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
}

CopyLines widest() {
    if (__builtin_cpu_supports("avx512f"))
        return copy_lines_by_64;
    return __builtin_cpu_supports("avx") ? copy_lines_by_32 : copy_lines_by_16;
}

// What is prefetched of the next piece: by then the processor has seen where it goes.
constexpr size_t kPrefetch = kStreamFrom / kLine;

void stream(char *to, const char *from, size_t length, const char *next) {
    const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
    memcpy(to, from, head);
    static const CopyLines copy_lines = widest();
    const size_t lines = (length - head) / kLine;
    const size_t first = next == nullptr ? 0 : std::min(lines, kPrefetch);
    copy_lines(to + head, from + head, first, next);
    copy_lines(to + head + first * kLine, from + head + first * kLine, lines - first, nullptr);
    const size_t done = head + lines * kLine;
    memcpy(to + done, from + done, length - done);
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

void finish_mapped() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

void copy_mapped(uint32_t op, char *local, char *remote, size_t length, const char *next) {
    if (op == KVF_OP_READ) {
        copy(local, remote, length, next);
        return;
    }
    touch(remote, length);
    copy(remote, local, length, next);
}

} // namespace shm
