// A loaded plugin: its shared object stays open as long as this lives, its table is checked and made full-size.
#pragma once

#include "base/status.h"

#include <kvferry/plugin.h>

#include <memory>
#include <string>

namespace kvf {

class Plugin {
  public:
    // Loads the file and checks what it offers. KVF_ERR_PLUGIN_ABI: another major. KVF_ERR_UNSUPPORTED: of a kind
    // that is neither transport nor decorator. KVF_ERR_NO_TRANSPORT: of no use here for another reason. The sentence
    // does not repeat the path. May block on the file system and for what the plugin does as it is loaded.
    static Status load(const std::string &path, std::shared_ptr<const Plugin> *plugin);

    ~Plugin();
    Plugin(const Plugin &) = delete;
    Plugin &operator=(const Plugin &) = delete;

    const std::string &name() const { return name_; }
    const std::string &path() const { return path_; }
    uint32_t kind() const { return table_.kind; }
    // Without the bits of features whose operation is missing; ops() in turn lacks the operation of a missing bit.
    uint64_t capabilities() const { return table_.capabilities; }
    // Full-size: what the plugin's table lacks or is too short for is null.
    const kvf_transport_ops &ops() const { return ops_; }
    // The same as a plugin's table, for a decorator to stand on.
    const kvf_plugin &table() const { return table_; }

  private:
    explicit Plugin(std::string path);

    Status open_object();
    Status query();
    Status check_abi(int rc);
    Status check_table();
    Status adopt_operations();

    std::string path_;
    std::string name_; // of the file
    void *handle_ = nullptr;
    kvf_plugin table_{};
    kvf_transport_ops ops_{};
};

} // namespace kvf
