// What a fuzz target promises, beside not crashing.
#pragma once

#include "base/status.h"

namespace kvf::fuzz {

// Ends the process with the promise on standard error when it does not hold; libFuzzer then keeps the input.
void holds(bool it_does, const char *promise);
void holds(const Status &status, const char *promise);

// Lines of the log are worded, as those of an engine are, and go nowhere.
void quiet();

} // namespace kvf::fuzz
