// Strings with values in them, as printf makes them, and the one kind of failure that ends a command.
#pragma once

#include <stdexcept>
#include <string>

namespace tool {

// Carries a sentence; thrown by whoever decides, printed once by main.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[gnu::format(printf, 1, 2)]] std::string text(const char *format, ...);

[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char *format, ...);

// Throws with kvferry's sentence when status is negative; call names what returned it. Returns status.
int check(int status, const char *call);

} // namespace tool
