#include "options.h"

#include "host.h"

#include <array>
#include <string_view>

namespace shm {
namespace {

struct Option {
    std::string_view key;
    const char *variable; // of the environment, without the host's prefix
    const char *values;   // for sentences
    std::array<std::string_view, 3> allowed;
    std::string_view value;
};

// "only" is kept apart from "on" because it says of the other option what this one does not.
struct Table {
    Option cma{"cma", "SHM_CMA", "on, off or only", {"on", "off", "only"}, {}};
    Option map{"map", "SHM_MAP", "on or off", {"on", "off"}, {}};
};

Status set(Option &option, std::string_view value, const char *from) {
    for (const std::string_view allowed : option.allowed) {
        if (!allowed.empty() && value == allowed) {
            option.value = allowed;
            return {};
        }
    }
    return fail(KVF_ERR_OPTION, "%s: \"%.*s\" is no value of %.*s, which is %s", from, static_cast<int>(value.size()),
                value.data(), static_cast<int>(option.key.size()), option.key.data(), option.values);
}

Status set_from_pair(Table &table, std::string_view pair) {
    const size_t equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    for (Option *option : {&table.cma, &table.map}) {
        if (key != option->key)
            continue;
        if (equals == std::string_view::npos)
            return fail(KVF_ERR_OPTION, "option %.*s of shm has no value; it is %s", static_cast<int>(key.size()),
                        key.data(), option->values);
        if (!option->value.empty())
            return fail(KVF_ERR_OPTION, "option %.*s of shm is given twice", static_cast<int>(key.size()), key.data());
        return set(*option, pair.substr(equals + 1), "options of shm");
    }
    return fail(KVF_ERR_OPTION, "shm has no option \"%.*s\"; it has cma (%s) and map (%s)",
                static_cast<int>(key.size()), key.data(), table.cma.values, table.map.values);
}

Status set_from_environment(Option &option) {
    if (!option.value.empty())
        return {};
    const char *value = host().config(option.variable);
    if (value == nullptr)
        return {};
    return set(option, value, text("KVF_%s", option.variable).c_str());
}

} // namespace

Status parse_options(const char *given, Options &options) {
    Table table;
    std::string_view rest = given == nullptr ? "" : given;
    while (!rest.empty()) {
        const size_t comma = rest.find(',');
        if (Status status = set_from_pair(table, rest.substr(0, comma)); !status.ok())
            return status;
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
    for (Option *option : {&table.cma, &table.map}) {
        if (Status status = set_from_environment(*option); !status.ok())
            return status;
    }
    if (table.cma.value == "only" && table.map.value == "on")
        return fail(KVF_ERR_OPTION, "options of shm: cma=only and map=on contradict each other");
    if (table.cma.value == "off" && table.map.value == "off")
        return fail(KVF_ERR_OPTION, "options of shm: cma=off and map=off leave no way to a peer's memory");
    options.cma = table.cma.value != "off";
    options.map = table.map.value != "off" && table.cma.value != "only";
    return {};
}

} // namespace shm
