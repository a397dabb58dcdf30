// The configuration variables, one table: name, default, meaning and range. Lookups, kvf_config_list and the page of
// documentation all come from it. In a set-uid program the environment counts as empty.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvf {

// In the order of the table in config_table.cpp.
enum class ConfigKey : uint32_t {
    log, // as a number: KVF_LOG_…
    listen,
    shards,
    max_rooms,
    inbox,
    window_ops,
    window_bytes,
    bootstrap_ms,
    waiting_ms,
    transfer_ms,
    heartbeat_ms,
    max_unclaimed,
    plugin_path,
    trust_network,
};

// The variable's value: the environment's, or the default when that is unset or empty. KVF_ERR_OPTION: it does not
// parse or is out of range; *out is left alone. The environment is read at each call.
Status config_u64(ConfigKey key, uint64_t *out);
Status config_string(ConfigKey key, std::string *out);

// Whether the variable may have that value, which a caller gives instead under the name `called`. KVF_ERR_INVALID.
Status config_within(ConfigKey key, uint64_t value, const char *called);

// KVF_OK when every variable of the table has a value that parses, else the first that has not.
Status config_check();

// The whole table with the values as they are now.
std::vector<kvf_config_entry> config_entries();

// KVF_<name> for a plugin, null when unset. What it returns lives as long as the process. Never throws.
const char *config_plugin_value(const char *name) noexcept;

// Each KVF_… in the environment that nothing reads: not in the table, not asked for by a plugin, and not named
// KVF_<PLUGIN>_… after one of plugins. The names live as long as the process.
std::vector<kvf_config_entry> config_unread(const std::vector<std::string> &plugins);

// Warns of those, once for each.
void config_warn_unread(const std::vector<std::string> &plugins);

} // namespace kvf
