// Reading JSON that strangers sent: parsing without exceptions, and fields with their types and ranges checked, each
// refusal a sentence that names the field, its value and what was expected.
#pragma once

#include "base/status.h"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvf {

// Text of a stranger made fit for a sentence: cut to `most` bytes, anything but printable ASCII replaced.
std::string quotable(std::string_view text, size_t most);

// KVF_ERR_INVALID for what is not JSON, or JSON but not an object.
Status parse_json_object(std::string_view text, boost::json::object *out);

// A JSON integer, or a decimal string, as an unsigned number.
std::optional<uint64_t> json_integer(const boost::json::value &value);

struct Bounds {
    uint64_t low = 0;
    uint64_t high = 0;
};

// Reads the fields of one object. The first field that is missing or wrong makes the status; what is read after
// that is of no meaning, so the caller reads everything and then looks at the status once.
class JsonFields {
  public:
    explicit JsonFields(const boost::json::object &object) : object_(object) {}

    // There, and not null.
    bool has(const char *name) const;

    // A JSON integer or a decimal string, which Python's int() takes as well.
    uint64_t integer(const char *name, Bounds bounds);

    // A string of bounds.low to bounds.high printable ASCII characters without spaces.
    std::string word(const char *name, Bounds bounds);

    bool boolean(const char *name);

    // Any object.
    void object(const char *name);

    void refuse(const char *name, const std::string &expected);
    const Status &status() const { return status_; }

  private:
    const boost::json::value *find(const char *name) const;

    const boost::json::object &object_;
    Status status_;
};

} // namespace kvf
