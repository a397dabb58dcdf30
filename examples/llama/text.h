// Words with values in them: strings as printf makes them, and failures that carry such a sentence.
#pragma once

#include <stdexcept>
#include <string>

namespace llama {

// The one way to fail here: thrown by whoever decides, printed once by main.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[gnu::format(printf, 1, 2)]] std::string text(const char *format, ...);

[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char *format, ...);

} // namespace llama
