// What a call inside the plugin returns: a code of kvferry.h and the sentence of whoever decided it. plugin.cpp hands
// the sentence to the host.
#pragma once

#include <kvferry/kvferry.h>

#include <string>
#include <utility>

namespace shm {

class [[nodiscard]] Status {
  public:
    Status() = default; // ok
    Status(int code, std::string sentence) : code_(code), sentence_(std::move(sentence)) {}

    bool ok() const { return code_ == KVF_OK; }
    int code() const { return code_; }
    const std::string &sentence() const { return sentence_; }

  private:
    int code_ = KVF_OK;
    std::string sentence_;
};

// As printf, into a string.
[[gnu::format(printf, 1, 2)]] std::string text(const char *format, ...);

// A failure with its sentence, worded as printf does.
[[gnu::format(printf, 2, 3)]] Status fail(int code, const char *format, ...);

// What errno says, as in "Permission denied". The string is static.
const char *errno_text(int error);

} // namespace shm
