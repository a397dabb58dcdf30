// Writes JSON, on one line: what is asked for with --json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tool {

// Values are written in the order of the calls; the caller opens and closes what it writes. Inside an object each value
// has a key, inside an array none.
class Json {
  public:
    Json &object(std::string_view key = {}) { return open(key, '{'); }
    Json &array(std::string_view key = {}) { return open(key, '['); }
    Json &end_object() { return close('}'); }
    Json &end_array() { return close(']'); }

    Json &string(std::string_view key, std::string_view value);
    Json &number(std::string_view key, double value); // one that is not finite is null
    Json &null(std::string_view key);
    Json &item(std::string_view value) { return string({}, value); }

    const std::string &line() const { return line_; }

  private:
    Json &open(std::string_view key, char bracket);
    Json &close(char bracket);
    void begin(std::string_view key);
    void quote(std::string_view value);

    std::string line_;
    bool first_ = true; // of what is open
};

} // namespace tool
