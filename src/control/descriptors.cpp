#include "control/descriptors.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace kvf {
namespace {

constexpr size_t kMost = size_t{1} << 20;

size_t most_open() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY)
        return kMost;
    return std::min<size_t>(limit.rlim_max, kMost);
}

} // namespace

Descriptors::Descriptors() : words_(most_open() / kBits + 1), open_(new std::atomic<uint64_t>[words_]()) {}

void Descriptors::add(int fd) {
    const auto number = static_cast<size_t>(fd);
    if (number / kBits < words_)
        open_[number / kBits].fetch_or(uint64_t{1} << number % kBits, std::memory_order_relaxed);
}

void Descriptors::remove(int fd) {
    const auto number = static_cast<size_t>(fd);
    if (number / kBits < words_)
        open_[number / kBits].fetch_and(~(uint64_t{1} << number % kBits), std::memory_order_relaxed);
}

void Descriptors::close_all() {
    for (size_t word = 0; word < words_; ++word)
        for (uint64_t bits = open_[word].exchange(0, std::memory_order_relaxed); bits != 0; bits &= bits - 1)
            close(static_cast<int>(word * kBits + static_cast<size_t>(__builtin_ctzll(bits))));
}

} // namespace kvf
