// What a stranger says to a Control: a message of each kind that fits where it belongs in the handshake with the
// engines of fuzz_messages, and changes of single fields.
#pragma once

#include "control/wire_messages.h"
#include "input.h"

namespace kvf::fuzz {

constexpr uint64_t kStranger = 77; // its instance
constexpr uint64_t kTensorPages = 100;

// The tensors of both sides.
Layout common_layout();

// The message of that kind (WireMessage's index) with the changes that the input makes: [field][value]...
WireMessage stranger_says(size_t kind, Input input);

} // namespace kvf::fuzz
