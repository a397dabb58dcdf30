// Finding a plugin by name, and the list of all that lie in the search path.
#pragma once

#include "plugin/plugin.h"

#include <vector>

namespace kvf {

// The first usable <name>.so of the search path. Else the sentence lists every file looked at and why it was refused;
// KVF_ERR_PLUGIN_ABI when one of them was built for another ABI, else KVF_ERR_UNSUPPORTED when one is of another kind,
// KVF_ERR_NO_TRANSPORT otherwise. KVF_ERR_INVALID: not
// a plugin's name.
Status load_plugin(const std::string &name, std::shared_ptr<const Plugin> *plugin);

// Every plugin file of the search path, with what it is or why it is refused. Loads each for the look.
std::vector<kvf_plugin_info> list_plugins();

} // namespace kvf
