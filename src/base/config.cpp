// Lookups in the configuration table and for plugins, and the warning about variables that nothing reads.
#include "base/config.h"

#include "base/config_table.h"
#include "base/log.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <string_view>

namespace kvf {
namespace {

// Null when unset, empty, or not to be trusted.
const char *environment(const char *name) {
    const char *value = secure_getenv(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
}

const ConfigRow &row_of(ConfigKey key) {
    return config_table()[static_cast<size_t>(key)];
}

std::string value_of(const ConfigRow &row) {
    const char *value = environment(row.name);
    return value != nullptr ? value : row.default_value;
}

// What plugins asked for and what was warned about. Never freed: a plugin keeps the strings.
struct Seen {
    std::mutex mutex;
    std::set<std::string> values; // node-based: the strings do not move
    std::set<std::string> read;
    std::set<std::string> warned;
};

Seen &seen() {
    static Seen *const it = new Seen;
    return *it;
}

void copy_cut(char *to, size_t size, const std::string &from) {
    const size_t length = std::min(from.size(), size - 1);
    std::memcpy(to, from.data(), length);
    to[length] = '\0';
}

// Edits (insert, delete, replace) between two names.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j < row.size(); ++j)
        row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t above = row[j];
            const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({above + 1, row[j - 1] + 1, replaced});
            diagonal = above;
        }
    }
    return row[b.size()];
}

const char *nearest(std::string_view name) {
    const char *best = nullptr;
    size_t best_distance = 3; // more than two edits is another word
    for (const ConfigRow &row : config_table()) {
        const size_t d = distance(name, row.name);
        if (d < best_distance) {
            best_distance = d;
            best = row.name;
        }
    }
    return best;
}

bool in_table(std::string_view name) {
    return std::ranges::any_of(config_table(), [&](const ConfigRow &row) { return name == row.name; });
}

std::string prefix_of(const std::string &plugin) {
    std::string prefix = "KVF_";
    for (const char c : plugin)
        prefix += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(c)) : '_';
    return prefix + "_";
}

bool belongs_to_a_plugin(std::string_view name, const std::vector<std::string> &plugins) {
    return std::ranges::any_of(plugins, [&](const std::string &plugin) { return name.starts_with(prefix_of(plugin)); });
}

void warn_unread(const std::string &name) {
    if (const char *near = nearest(name))
        log(KVF_LOG_WARN, "%s is set but nothing reads it (did you mean %s?)", name.c_str(), near);
    else
        log(KVF_LOG_WARN, "%s is set but nothing reads it", name.c_str());
}

} // namespace

Status config_u64(ConfigKey key, uint64_t *out) {
    const ConfigRow &row = row_of(key);
    return config_parse(row, value_of(row), out);
}

Status config_string(ConfigKey key, std::string *out) {
    *out = value_of(row_of(key));
    return {};
}

Status config_within(ConfigKey key, uint64_t value, const char *called) {
    const ConfigRow &row = config_table()[static_cast<size_t>(key)];
    if (value >= row.least && value <= row.most)
        return {};
    return fail(KVF_ERR_INVALID, "%s is %llu; expected %llu to %llu", called, static_cast<unsigned long long>(value),
                static_cast<unsigned long long>(row.least), static_cast<unsigned long long>(row.most));
}

Status config_check() {
    for (const ConfigRow &row : config_table()) {
        uint64_t ignored = 0;
        if (Status status = config_parse(row, value_of(row), &ignored); !status.ok())
            return status;
    }
    return {};
}

std::vector<kvf_config_entry> config_entries() {
    std::vector<kvf_config_entry> entries;
    for (const ConfigRow &row : config_table()) {
        kvf_config_entry entry{};
        entry.name = row.name;
        entry.default_value = row.default_value;
        entry.description = row.description;
        const bool set = environment(row.name) != nullptr;
        std::string value = value_of(row);
        uint64_t number = 0;
        const bool parses = config_parse(row, value, &number).ok();
        if (parses && row.kind == ConfigKind::shards)
            value = std::to_string(number); // what auto stands for here
        copy_cut(entry.value, sizeof entry.value, value);
        copy_cut(entry.source, sizeof entry.source,
                 !set ? "default" : (parses ? "environment" : "environment (does not parse)"));
        entries.push_back(entry);
    }
    return entries;
}

const char *config_plugin_value(const char *name) noexcept {
    if (name == nullptr)
        return nullptr;
    try {
        const std::string full = std::string("KVF_") + name;
        const char *value = environment(full.c_str());
        Seen &s = seen();
        const std::lock_guard<std::mutex> guard(s.mutex);
        s.read.insert(full);
        // A copy, since the environment's own string may be replaced by setenv.
        return value != nullptr ? s.values.insert(value).first->c_str() : nullptr;
    } catch (const std::exception &) {
        return nullptr;
    }
}

std::vector<kvf_config_entry> config_unread(const std::vector<std::string> &plugins) {
    std::vector<kvf_config_entry> entries;
    if (environ == nullptr || getauxval(AT_SECURE) != 0)
        return entries;
    for (char **at = environ; *at != nullptr; ++at) {
        const std::string_view variable = *at;
        if (!variable.starts_with("KVF_"))
            continue;
        const size_t equals = std::min(variable.find('='), variable.size());
        const std::string name(variable.substr(0, equals));
        if (in_table(name) || belongs_to_a_plugin(name, plugins))
            continue;
        Seen &s = seen();
        const std::lock_guard<std::mutex> guard(s.mutex);
        if (s.read.contains(name))
            continue;
        kvf_config_entry entry{};
        entry.name = s.values.insert(name).first->c_str();
        entry.default_value = "";
        entry.description = "";
        copy_cut(entry.value, sizeof entry.value, std::string(variable.substr(std::min(equals + 1, variable.size()))));
        copy_cut(entry.source, sizeof entry.source, "environment (nothing reads it)");
        entries.push_back(entry);
    }
    return entries;
}

void config_warn_unread(const std::vector<std::string> &plugins) {
    for (const kvf_config_entry &entry : config_unread(plugins)) {
        {
            Seen &s = seen();
            const std::lock_guard<std::mutex> guard(s.mutex);
            if (!s.warned.insert(entry.name).second)
                continue;
        }
        warn_unread(entry.name);
    }
}

} // namespace kvf
