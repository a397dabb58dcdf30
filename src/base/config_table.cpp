// The configuration table itself and the parsers of its kinds.
#include "base/config_table.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace kvf {
namespace {

constexpr uint64_t kMostMs = UINT32_MAX;
constexpr uint64_t kMostSlots = uint64_t{1} << 24;

constexpr ConfigRow kTable[] = {
    {ConfigKey::log, ConfigKind::level, "KVF_LOG", "warn", "what is logged: error, warn, info or debug", 0, 0},
    {ConfigKey::listen, ConfigKind::text, "KVF_LISTEN", "tcp://127.0.0.1:0",
     "control address of a prefill engine: tcp://host:port (port 0: any) or unix:///path", 0, 0},
    {ConfigKey::shards, ConfigKind::shards, "KVF_SHARDS", "auto", "worker threads of an engine; auto: min(4, cores)", 1,
     256},
    {ConfigKey::max_rooms, ConfigKind::number, "KVF_MAX_ROOMS", "131072", "room slots of an engine, 64 bytes each", 1,
     kMostSlots},
    {ConfigKey::inbox, ConfigKind::number, "KVF_INBOX", "65536", "queued calls a shard holds before KVF_ERR_AGAIN", 1,
     kMostSlots},
    {ConfigKey::window_ops, ConfigKind::number, "KVF_WINDOW_OPS", "64", "batches in flight per shard", 1, 65536},
    {ConfigKey::window_bytes, ConfigKind::bytes, "KVF_WINDOW_BYTES", "64M", "bytes in flight per shard", 1,
     uint64_t{1} << 48},
    {ConfigKey::bootstrap_ms, ConfigKind::number, "KVF_BOOTSTRAP_MS", "300000",
     "milliseconds to find the peer and agree with it", 1, kMostMs},
    {ConfigKey::waiting_ms, ConfigKind::number, "KVF_WAITING_MS", "300000", "milliseconds from then to the first chunk",
     1, kMostMs},
    {ConfigKey::transfer_ms, ConfigKind::number, "KVF_TRANSFER_MS", "300000", "milliseconds from then to the end", 1,
     kMostMs},
    {ConfigKey::heartbeat_ms, ConfigKind::number, "KVF_HEARTBEAT_MS", "5000",
     "milliseconds after which a silent peer is asked; two misses and it is lost", 1, kMostMs},
    {ConfigKey::max_unclaimed, ConfigKind::number, "KVF_MAX_UNCLAIMED", "65536",
     "offers kept for rooms that the prefill side has not opened", 1, kMostSlots},
    {ConfigKey::plugin_path, ConfigKind::text, "KVF_PLUGIN_PATH", "",
     "folders searched first for plugins, separated by colons", 0, 0},
    {ConfigKey::trust_network, ConfigKind::number, "KVF_TRUST_NETWORK", "0",
     "1: engines and bootstrap servers may listen where other hosts reach them; peers prove nothing, so only where all "
     "of "
     "those are trusted",
     0, 1},
};

constexpr bool rows_are_in_order() {
    for (size_t i = 0; i < std::size(kTable); ++i)
        if (static_cast<size_t>(kTable[i].key) != i)
            return false;
    return true;
}
static_assert(rows_are_in_order());

uint64_t default_shards() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    // Fails only on machines with more cores than the set can name.
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 4;
    return std::clamp(CPU_COUNT(&cores), 1, 4);
}

const char *expected(ConfigKind kind) {
    switch (kind) {
        case ConfigKind::level:
            return "error, warn, info or debug";
        case ConfigKind::shards:
            return "auto or a number";
        case ConfigKind::bytes:
            return "a number with an optional K, M or G";
        default:
            return "a number";
    }
}

bool parse_level(const std::string &value, uint64_t *out) {
    constexpr const char *kNames[] = {"error", "warn", "info", "debug"};
    for (size_t i = 0; i < std::size(kNames); ++i)
        if (value == kNames[i]) {
            *out = KVF_LOG_ERROR + i;
            return true;
        }
    return false;
}

uint64_t unit_of(char suffix) {
    switch (suffix) {
        case 'K':
        case 'k':
            return uint64_t{1} << 10;
        case 'M':
        case 'm':
            return uint64_t{1} << 20;
        case 'G':
        case 'g':
            return uint64_t{1} << 30;
        default:
            return 0;
    }
}

bool parse_number(const std::string &value, bool suffixed, uint64_t *out) {
    const char *end = value.data() + value.size();
    uint64_t number = 0;
    const auto [rest, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc())
        return false;
    if (suffixed && end - rest == 1) {
        const uint64_t unit = unit_of(*rest);
        if (unit == 0 || __builtin_mul_overflow(number, unit, &number))
            return false;
    } else if (rest != end) {
        return false;
    }
    *out = number;
    return true;
}

Status out_of_form(const ConfigRow &row, const std::string &value) {
    if (row.most == 0)
        return fail(KVF_ERR_OPTION, "%s is \"%s\"; expected %s", row.name, value.c_str(), expected(row.kind));
    return fail(KVF_ERR_OPTION, "%s is \"%s\"; expected %s, from %llu to %llu", row.name, value.c_str(),
                expected(row.kind), static_cast<unsigned long long>(row.least),
                static_cast<unsigned long long>(row.most));
}

} // namespace

std::span<const ConfigRow> config_table() {
    return kTable;
}

Status config_parse(const ConfigRow &row, const std::string &value, uint64_t *out) {
    uint64_t number = 0;
    switch (row.kind) {
        case ConfigKind::text:
            return {};
        case ConfigKind::level:
            if (!parse_level(value, &number))
                return out_of_form(row, value);
            *out = number;
            return {};
        case ConfigKind::shards:
            if (value == "auto") {
                *out = default_shards();
                return {};
            }
            break;
        default:
            break;
    }
    if (!parse_number(value, row.kind == ConfigKind::bytes, &number) || number < row.least || number > row.most)
        return out_of_form(row, value);
    *out = number;
    return {};
}

} // namespace kvf
