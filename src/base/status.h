// What a call inside the library returns: a code of kvferry.h and the sentence of whoever decided it.
#pragma once

#include <kvferry/kvferry.h>

#include <string>
#include <utility>

namespace kvf {

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

// A failure of a system call: "what: strerror(error)".
Status fail_system(int error, const std::string &what);

// Keeps a failure's sentence for kvf_last_error on this thread and returns the code. One without memory for its
// sentence has none.
int tell(const Status &status) noexcept;

const std::string &last_sentence();

} // namespace kvf
