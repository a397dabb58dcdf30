// One table of options: key and where its value goes. Environment and option string both pass through it.
#include "options.h"

#include "host.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>
#include <variant>

namespace fault {
namespace {

using Field = std::variant<uint64_t Options::*, double Options::*, Range Options::*, Hold Options::*>;

struct Row {
    const char *key;
    Field field;
};

constexpr Row kTable[] = {
    {"seed", &Options::seed},
    {"fail", &Options::fail},
    {"never", &Options::never},
    {"truncate", &Options::truncate},
    {"full", &Options::full},
    {"reorder", &Options::reorder},
    {"delayed", &Options::delayed},
    {"delay", &Options::delay},
    {"polls", &Options::polls},
    {"hold", &Options::hold},
    {"connect_fail", &Options::connect_fail},
    {"import_fail", &Options::import_fail},
    {"register_fail", &Options::register_fail},
    {"connect_fail_first", &Options::connect_fail_first},
    {"fence_busy", &Options::fence_busy},
};

constexpr uint64_t kMostDelay = 1000000000; // of milliseconds or polls; keeps sums of nanoseconds from wrapping

template <typename Number>
bool parse_whole(std::string_view text, Number *out) {
    const char *end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, *out);
    return error == std::errc() && rest == end;
}

// Each returns null, or what was expected.
const char *parse(std::string_view text, uint64_t *out) {
    return parse_whole(text, out) ? nullptr : "a number";
}

const char *parse(std::string_view text, double *out) {
    return parse_whole(text, out) && *out >= 0 && *out <= 1 ? nullptr : "a probability from 0 to 1";
}

const char *parse(std::string_view text, Range *out) {
    const size_t dash = text.find('-');
    const bool parsed = dash == std::string_view::npos ? parse_whole(text, &out->least) && parse_whole(text, &out->most)
                                                       : parse_whole(text.substr(0, dash), &out->least) &&
                                                             parse_whole(text.substr(dash + 1), &out->most);
    return parsed && out->least <= out->most && out->most <= kMostDelay ? nullptr : "a number or a range as 1-9";
}

const char *parse(std::string_view text, Hold *out) {
    if (text == "before")
        *out = Hold::before;
    else if (text == "after")
        *out = Hold::after;
    else if (text == "either")
        *out = Hold::either;
    else
        return "before, after or either";
    return nullptr;
}

const char *assign(const Row &row, std::string_view value, Options *options) {
    return std::visit([&](auto member) { return parse(value, &(options->*member)); }, row.field);
}

int read_environment(Options *options) {
    for (const Row &row : kTable) {
        std::string name = std::string("FAULT_") + row.key;
        std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
        const char *value = host().config(name.c_str());
        if (value == nullptr)
            continue;
        if (const char *expected = assign(row, value, options))
            return fail(KVF_ERR_OPTION, "KVF_%s is \"%s\"; expected %s", name.c_str(), value, expected);
    }
    return KVF_OK;
}

int read_pair(std::string_view pair, Options *options) {
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string key(pair.substr(0, equals));
    const std::string value(pair.substr(std::min(equals + 1, pair.size())));
    for (const Row &row : kTable) {
        if (key != row.key)
            continue;
        if (const char *expected = assign(row, value, options))
            return fail(KVF_ERR_OPTION, "option %s is \"%s\"; expected %s", key.c_str(), value.c_str(), expected);
        return KVF_OK;
    }
    return fail(KVF_ERR_OPTION, "option \"%s\" is not known", key.c_str());
}

} // namespace

int read_options(const char *text, Options *options) {
    *options = Options();
    if (const int rc = read_environment(options); rc != KVF_OK)
        return rc;
    const std::string_view all = text != nullptr ? text : "";
    for (size_t begin = 0; begin < all.size();) {
        const size_t end = std::min(all.find(',', begin), all.size());
        if (const int rc = read_pair(all.substr(begin, end - begin), options); rc != KVF_OK)
            return rc;
        begin = end + 1;
    }
    return KVF_OK;
}

} // namespace fault
