// The rows of the configuration table, and what a value of each kind looks like.
#pragma once

#include "base/config.h"

#include <span>

namespace kvf {

enum class ConfigKind : uint32_t {
    level,  // error|warn|info|debug
    number, // decimal
    shards, // decimal, or "auto"
    bytes,  // decimal with an optional K, M or G of 1024
    text,   // anything
};

struct ConfigRow {
    ConfigKey key;
    ConfigKind kind;
    const char *name;
    const char *default_value;
    const char *description;
    uint64_t least, most; // of the number, both included
};

std::span<const ConfigRow> config_table();

// The number that value stands for in that row. KVF_ERR_OPTION names the variable, the value and what was expected.
Status config_parse(const ConfigRow &row, const std::string &value, uint64_t *out);

} // namespace kvf
