// Walking the search path.
#include "plugin/loader.h"

#include "plugin/search.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace kvf {
namespace {

void copy_cut(char *to, size_t size, const char *from) {
    const size_t length = std::min(std::strlen(from), size - 1);
    std::memcpy(to, from, length);
    to[length] = '\0';
}

} // namespace

Status load_plugin(const std::string &name, std::shared_ptr<const Plugin> *plugin) {
    if (!is_plugin_name(name))
        return fail(KVF_ERR_INVALID, "\"%s\" is not a plugin's name: a-z, 0-9, _ and -, at most 31", name.c_str());
    std::string refusals;
    int code = KVF_ERR_NO_TRANSPORT;
    for (const std::string &folder : plugin_folders()) {
        const std::string path = std::filesystem::path(folder) / (name + ".so");
        const Status status = Plugin::load(path, plugin);
        if (status.ok())
            return {};
        if (status.code() == KVF_ERR_PLUGIN_ABI || code == KVF_ERR_NO_TRANSPORT)
            code = status.code();
        refusals += (refusals.empty() ? "" : "; ") + path + ": " + status.sentence();
    }
    return fail(code, "no usable plugin \"%s\": %s", name.c_str(), refusals.c_str());
}

std::vector<kvf_plugin_info> list_plugins() {
    std::vector<kvf_plugin_info> list;
    for (const std::string &path : plugin_files()) {
        kvf_plugin_info info{};
        const std::string name = std::filesystem::path(path).stem();
        copy_cut(info.name, sizeof info.name, name.c_str());
        copy_cut(info.path, sizeof info.path, path.c_str());
        std::shared_ptr<const Plugin> plugin;
        if (const Status status = Plugin::load(path, &plugin); !status.ok()) {
            copy_cut(info.refused, sizeof info.refused, status.sentence().c_str());
        } else {
            const kvf_plugin &table = plugin->table();
            if (table.description != nullptr)
                copy_cut(info.description, sizeof info.description, table.description);
            info.capabilities = table.capabilities;
            info.kind = table.kind;
            info.abi_major = table.abi_major;
            info.abi_minor = table.abi_minor;
        }
        list.push_back(info);
    }
    return list;
}

} // namespace kvf
