// Option strings, "key=value,key=value", as they are given with the name of a transport.
#pragma once

#include "base/status.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvf {

using Options = std::vector<std::pair<std::string, std::string>>;

// Splits them, in their order. KVF_ERR_OPTION: a piece without '=', an empty key or a key twice. A value may be empty
// and may hold a '='; blanks are part of what they stand in.
Status parse_options(std::string_view text, Options *options);

// The reverse.
std::string join_options(const Options &options);

} // namespace kvf
