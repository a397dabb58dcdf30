// Splitting and joining of option strings.
#include "base/options.h"

#include <algorithm>

namespace kvf {

Status parse_options(std::string_view text, Options *options) {
    options->clear();
    if (text.empty())
        return {};
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string piece(text.substr(begin, end - begin));
        const size_t equals = piece.find('=');
        if (equals == std::string::npos || equals == 0)
            return fail(KVF_ERR_OPTION, "option \"%s\" is not of the form key=value", piece.c_str());
        std::string key = piece.substr(0, equals);
        for (const auto &earlier : *options)
            if (earlier.first == key)
                return fail(KVF_ERR_OPTION, "option \"%s\" is given twice", key.c_str());
        options->emplace_back(std::move(key), piece.substr(equals + 1));
        begin = end + 1;
    }
    return {};
}

std::string join_options(const Options &options) {
    std::string out;
    for (const auto &[key, value] : options) {
        if (!out.empty())
            out += ',';
        out += key;
        out += '=';
        out += value;
    }
    return out;
}

} // namespace kvf
