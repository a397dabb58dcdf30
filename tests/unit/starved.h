// Allocations that fail when a test says so. The program that links this has its own operator new.
#pragma once

#include <utility>

namespace kvf {

// How many allocations of this thread succeed before one does not; negative: all.
extern thread_local int t_allocations_left;

// Runs act with that allocation failing; whether it came to it.
template <typename Act>
bool starved(int allocation, Act act) {
    t_allocations_left = allocation;
    act();
    return std::exchange(t_allocations_left, -1) < 0;
}

} // namespace kvf
