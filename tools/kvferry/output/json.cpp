#include "output/json.h"

#include <cmath>

#include "output/text.h"

namespace tool {

void Json::quote(std::string_view value) {
    line_ += '"';
    for (const char c : value) {
        if (c == '"' || c == '\\')
            line_ += {'\\', c};
        else if (static_cast<unsigned char>(c) < 0x20)
            line_ += text("\\u%04x", static_cast<unsigned>(c));
        else
            line_ += c;
    }
    line_ += '"';
}

void Json::begin(std::string_view key) {
    if (!first_)
        line_ += ", ";
    first_ = false;
    if (!key.empty()) {
        quote(key);
        line_ += ": ";
    }
}

Json &Json::open(std::string_view key, char bracket) {
    begin(key);
    line_ += bracket;
    first_ = true;
    return *this;
}

Json &Json::close(char bracket) {
    line_ += bracket;
    first_ = false;
    return *this;
}

Json &Json::string(std::string_view key, std::string_view value) {
    begin(key);
    quote(value);
    return *this;
}

Json &Json::number(std::string_view key, double value) {
    if (!std::isfinite(value))
        return null(key);
    begin(key);
    line_ += text("%.10g", value);
    return *this;
}

Json &Json::null(std::string_view key) {
    begin(key);
    line_ += "null";
    return *this;
}

} // namespace tool
