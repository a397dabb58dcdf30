#include "world.h"

#include "room/ids.h"

#include <cstdarg>
#include <cstdio>

namespace kvf::sim {
namespace {

uint64_t rotate(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

} // namespace

Random::Random(uint64_t seed) {
    for (uint64_t i = 0; i < 4; ++i)
        state_[i] = mix(seed + i * 0x9e3779b97f4a7c15);
}

uint64_t Random::next() {
    const uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
}

void World::at(uint64_t time, std::function<void()> happen) {
    events_.push({time < now_ ? now_ : time, order_++, std::move(happen)});
}

bool World::step() {
    if (events_.empty())
        return false;
    // The queue gives no way to move out of it but this; the element goes at once.
    auto event = std::move(const_cast<Event &>(events_.top()));
    events_.pop();
    now_ = event.time;
    event.happen();
    if (check)
        check();
    return true;
}

void World::trace(const char *format, ...) {
    if (!traced_)
        return;
    std::printf("%12.6f ms  ", static_cast<double>(now_ - kSecond) / static_cast<double>(kMilli));
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::putchar('\n');
}

void World::violation(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (violations_++ == 0)
        first_violation_ = line;
    trace("VIOLATION %s", line);
}

} // namespace kvf::sim
