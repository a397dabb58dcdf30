// Where plugins are looked for.
#pragma once

#include <string>
#include <vector>

namespace kvf {

// Folders in the order they are searched: KVF_PLUGIN_PATH; the plugins of the build tree, when this library lies in
// one; kvferry-<abi major> beside this library; the folder chosen when it was built. No folder comes twice.
std::vector<std::string> plugin_folders();

// Whether name may name a plugin: lower-case letters, digits, '_' and '-', at most 31 of them.
bool is_plugin_name(const std::string &name);

// Paths of all files <name>.so in the folders, in the order of the search and then of the names.
std::vector<std::string> plugin_files();

// Names of all of them, each once; nothing is loaded. For config_warn_unread.
std::vector<std::string> plugin_names();

} // namespace kvf
