// `kvferry info`: the library's version, its configuration as it stands, and the plugins that it finds.
#include <kvferry/kvferry.h>
#include <kvferry/plugin.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "output/json.h"
#include "output/table.h"
#include "output/text.h"

namespace tool {

namespace {

// The function says how many there are and fills what it is given room for; between two calls there may be more.
template <typename Entry>
std::vector<Entry> list_all(int (*list)(Entry *, size_t, size_t), const char *name) {
    std::vector<Entry> out;
    for (;;) {
        const size_t room = out.size();
        out.resize(static_cast<size_t>(check(list(out.data(), room, sizeof(Entry)), name)));
        if (out.size() <= room)
            return out;
    }
}

std::string kind_name(uint32_t kind) {
    switch (kind) {
        case KVF_PLUGIN_TRANSPORT:
            return "transport";
        case KVF_PLUGIN_DECORATOR:
            return "decorator";
        case KVF_PLUGIN_MEMORY:
            return "memory";
        default:
            return text("kind %u", kind);
    }
}

std::vector<std::string> capability_words(uint64_t capabilities) {
    static constexpr struct {
        uint64_t bit;
        const char *words;
    } kWords[] = {
        {KVF_CAP_WRITE, "writes"},
        {KVF_CAP_READ, "reads"},
        {KVF_CAP_STRIDED, "strided segments"},
        {KVF_CAP_CANCEL, "cancel"},
        {KVF_CAP_FENCE, "fence"},
        {KVF_CAP_WAIT, "wait"},
        {KVF_CAP_EVENT_FD, "event descriptor"},
        {KVF_CAP_SAME_HOST, "same host only"},
    };
    std::vector<std::string> out;
    for (const auto &entry : kWords) {
        if ((capabilities & entry.bit) != 0)
            out.emplace_back(entry.words);
        capabilities &= ~entry.bit;
    }
    if (capabilities != 0)
        out.push_back(text("0x%llx", static_cast<unsigned long long>(capabilities)));
    return out;
}

std::string joined(const std::vector<std::string> &words) {
    std::string out;
    for (const std::string &word : words)
        out += (out.empty() ? "" : ", ") + word;
    return out;
}

std::string abi(const kvf_plugin_info &plugin) {
    return text("%u.%u", plugin.abi_major, plugin.abi_minor);
}

void print_json(const std::vector<kvf_config_entry> &configuration, const std::vector<kvf_plugin_info> &plugins) {
    Json json;
    json.object().string("version", kvf_version_string()).array("configuration");
    for (const kvf_config_entry &entry : configuration) {
        json.object().string("name", entry.name).string("value", entry.value).string("source", entry.source);
        json.string("default", entry.default_value).string("description", entry.description).end_object();
    }
    json.end_array().array("plugins");
    for (const kvf_plugin_info &plugin : plugins) {
        json.object().string("name", plugin.name).string("path", plugin.path);
        if (plugin.refused[0] != '\0') {
            json.string("refused", plugin.refused).end_object();
            continue;
        }
        json.string("kind", kind_name(plugin.kind)).string("abi", abi(plugin));
        json.string("description", plugin.description).array("capabilities");
        for (const std::string &word : capability_words(plugin.capabilities))
            json.item(word);
        json.end_array().null("refused").end_object();
    }
    json.end_array().end_object();
    std::printf("%s\n", json.line().c_str());
}

void print_text(const std::vector<kvf_config_entry> &configuration, const std::vector<kvf_plugin_info> &plugins) {
    using enum Table::Align;
    std::printf("kvferry %s\n\nconfiguration\n", kvf_version_string());
    Table settings{left, left, left, left};
    for (const kvf_config_entry &entry : configuration)
        settings.row({entry.name, entry.value, entry.source, entry.description});
    settings.print(stdout, 2);

    size_t refused = 0;
    std::printf("\nplugins\n");
    for (const kvf_plugin_info &plugin : plugins) {
        if (plugin.refused[0] != '\0') {
            ++refused;
            continue;
        }
        std::printf("  %s: %s\n", plugin.name, plugin.description);
        Table facts{left, left};
        facts.row({kind_name(plugin.kind), joined(capability_words(plugin.capabilities))});
        facts.row({"plugin ABI", abi(plugin)});
        facts.row({"file", plugin.path});
        facts.print(stdout, 4);
    }
    if (refused == plugins.size())
        std::printf("  none that can be loaded\n");
    if (refused == 0)
        return;
    std::printf("\nrefused\n");
    for (const kvf_plugin_info &plugin : plugins)
        if (plugin.refused[0] != '\0')
            std::printf("  %s\n    %s\n", plugin.path, plugin.refused);
}

int show_info(bool as_json) {
    const auto configuration = list_all(kvf_config_list, "kvf_config_list");
    const auto plugins = list_all(kvf_plugin_list, "kvf_plugin_list");
    if (as_json)
        print_json(configuration, plugins);
    else
        print_text(configuration, plugins);
    return 0;
}

} // namespace

void add_info(CLI::App &app, Run &run) {
    CLI::App *command = app.add_subcommand("info", "Version, configuration, plugins and what they can do");
    const auto as_json = std::make_shared<bool>(false);
    command->add_flag("--json", *as_json, "One JSON object");
    command->callback([&run, as_json] { run = [as_json] { return show_info(*as_json); }; });
}

} // namespace tool
