// The checks of JsonFields, and the one place where Boost.JSON's own source is compiled.
#include "control/bootstrap_json.h"

#include <boost/json/src.hpp>

#include <charconv>

namespace kvf {
namespace {

constexpr size_t kShownValue = 64;

bool printable(char c) {
    return c >= ' ' && c <= '~';
}

std::string whole_numbers(Bounds bounds) {
    return "an integer from " + std::to_string(bounds.low) + " to " + std::to_string(bounds.high);
}

} // namespace

std::string quotable(std::string_view text, size_t most) {
    std::string out(text.substr(0, most));
    for (char &c : out) {
        if (!printable(c))
            c = '?';
    }
    if (text.size() > most)
        out += "...";
    return out;
}

Status parse_json_object(std::string_view text, boost::json::object *out) {
    boost::json::error_code error;
    boost::json::value value = boost::json::parse(text, error);
    if (error)
        return {KVF_ERR_INVALID, "not JSON: " + error.message()};
    if (!value.is_object())
        return fail(KVF_ERR_INVALID, "expected a JSON object");
    *out = std::move(value.get_object());
    return {};
}

std::optional<uint64_t> json_integer(const boost::json::value &value) {
    if (value.is_uint64())
        return value.get_uint64();
    if (value.is_int64() && value.get_int64() >= 0)
        return static_cast<uint64_t>(value.get_int64());
    if (value.is_string()) {
        const boost::json::string &digits = value.get_string();
        uint64_t number = 0;
        const char *end = digits.data() + digits.size();
        const auto [stop, error] = std::from_chars(digits.data(), end, number);
        if (error == std::errc() && stop == end)
            return number;
    }
    return std::nullopt;
}

const boost::json::value *JsonFields::find(const char *name) const {
    return object_.if_contains(name);
}

bool JsonFields::has(const char *name) const {
    const boost::json::value *value = find(name);
    return value != nullptr && !value->is_null();
}

uint64_t JsonFields::integer(const char *name, Bounds bounds) {
    const boost::json::value *value = find(name);
    if (value != nullptr) {
        const std::optional<uint64_t> number = json_integer(*value);
        if (number && *number >= bounds.low && *number <= bounds.high)
            return *number;
    }
    refuse(name, whole_numbers(bounds));
    return bounds.low;
}

std::string JsonFields::word(const char *name, Bounds bounds) {
    const boost::json::value *value = find(name);
    if (value != nullptr && value->is_string()) {
        const boost::json::string &text = value->get_string();
        bool fits = text.size() >= bounds.low && text.size() <= bounds.high;
        for (const char c : text)
            fits = fits && printable(c) && c != ' ';
        if (fits)
            return {text.data(), text.size()};
    }
    refuse(name, "a string of " + std::to_string(bounds.low) + " to " + std::to_string(bounds.high) +
                     " printable characters");
    return {};
}

bool JsonFields::boolean(const char *name) {
    const boost::json::value *value = find(name);
    if (value != nullptr && value->is_bool())
        return value->get_bool();
    refuse(name, "true or false");
    return false;
}

void JsonFields::object(const char *name) {
    const boost::json::value *value = find(name);
    if (value == nullptr || !value->is_object())
        refuse(name, "an object");
}

void JsonFields::refuse(const char *name, const std::string &expected) {
    if (!status_.ok())
        return;
    const boost::json::value *value = find(name);
    std::string sentence(name);
    if (value == nullptr)
        sentence += " is missing";
    else
        sentence += " is " + quotable(boost::json::serialize(*value), kShownValue);
    status_ = Status(KVF_ERR_INVALID, sentence + "; expected " + expected);
}

} // namespace kvf
