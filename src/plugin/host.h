// The services that kvferry gives to plugins, and the sentence with which a plugin explained a failure.
#pragma once

#include <kvferry/plugin.h>

#include <string>

namespace kvf {

// Lives as long as the process.
const kvf_host *plugin_host();

// What a plugin last said through host->fail on this thread, "" for nothing; then forgotten.
std::string take_plugin_sentence();

// Forgets it, before a call whose failure should not be explained by an earlier one.
void clear_plugin_sentence();

} // namespace kvf
