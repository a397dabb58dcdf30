// The search path of plugins and what lies in it.
#include "plugin/search.h"

#include "base/config.h"

#include <dlfcn.h>
#include <kvferry/plugin.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace kvf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameMost = sizeof(kvf_plugin_info::name) - 1;

// The folder of the library (or program) that this code was linked into, "" when it can't be told. Asked once, at the
// first use: the path may be relative to a working directory that the program leaves.
const fs::path &own_folder() {
    static const fs::path folder = [] {
        static const char marker = 0;
        Dl_info info{};
        std::error_code error;
        if (dladdr(&marker, &info) == 0 || info.dli_fname == nullptr)
            return fs::path();
        return fs::canonical(info.dli_fname, error).parent_path();
    }();
    return folder;
}

void add(std::vector<std::string> *folders, const std::string &folder) {
    if (!folder.empty() && std::ranges::find(*folders, folder) == folders->end())
        folders->push_back(folder);
}

void add_each(std::vector<std::string> *folders, const std::string &path) {
    for (size_t begin = 0; begin <= path.size();) {
        const size_t end = std::min(path.find(':', begin), path.size());
        add(folders, path.substr(begin, end - begin));
        begin = end + 1;
    }
}

// Of plugins that were built and not installed (cmake/options.cmake): in the tree of a project of its own or of a part.
bool is_of_build_tree(const fs::path &plugins) {
    std::error_code error;
    return fs::exists(plugins / "build-tree", error);
}

} // namespace

std::vector<std::string> plugin_folders() {
    std::vector<std::string> folders;
    std::string path;
    if (config_string(ConfigKey::plugin_path, &path).ok())
        add_each(&folders, path);
    if (const fs::path &own = own_folder(); !own.empty()) {
        if (const fs::path built = own.parent_path() / "plugins"; is_of_build_tree(built))
            add(&folders, built);
        add(&folders, own / ("kvferry-" + std::to_string(KVF_PLUGIN_ABI_MAJOR)));
    }
    add(&folders, KVF_PLUGIN_INSTALL_DIR);
    return folders;
}

bool is_plugin_name(const std::string &name) {
    return !name.empty() && name.size() <= kNameMost && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
}

std::vector<std::string> plugin_files() {
    std::vector<std::string> files;
    for (const std::string &folder : plugin_folders()) {
        const auto begin = static_cast<std::ptrdiff_t>(files.size());
        std::error_code error;
        for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
            if (at->path().extension() == ".so" && is_plugin_name(at->path().stem()))
                files.push_back(at->path());
        std::sort(files.begin() + begin, files.end());
    }
    return files;
}

std::vector<std::string> plugin_names() {
    std::vector<std::string> names;
    for (const std::string &file : plugin_files())
        names.push_back(fs::path(file).stem());
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

} // namespace kvf
