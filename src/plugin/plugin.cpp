// Loading one plugin file and negotiating with it. Only the first three members of its table are believed before its
// ABI is known to be ours.
#include "plugin/plugin.h"

#include "base/status_text.h"
#include "plugin/host.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>

namespace kvf {
namespace {

// dlerror's text without the path that it begins with.
std::string loader_text(const std::string &path) {
    const char *error = dlerror();
    std::string out = error != nullptr ? error : "can't be loaded";
    if (out.starts_with(path + ": "))
        out.erase(0, path.size() + 2);
    return out;
}

const char *first_missing(const kvf_transport_ops &ops) {
#define KVF_REQUIRED(op)   \
    if (ops.op == nullptr) \
        return #op;
    KVF_REQUIRED(open)
    KVF_REQUIRED(close)
    KVF_REQUIRED(address)
    KVF_REQUIRED(register_region)
    KVF_REQUIRED(deregister_region)
    KVF_REQUIRED(export_key)
    KVF_REQUIRED(peer_create)
    KVF_REQUIRED(peer_connect)
    KVF_REQUIRED(peer_destroy)
    KVF_REQUIRED(import_key)
    KVF_REQUIRED(release_key)
    KVF_REQUIRED(lane_open)
    KVF_REQUIRED(lane_close)
    KVF_REQUIRED(post)
    KVF_REQUIRED(poll)
#undef KVF_REQUIRED
    return nullptr;
}

// A feature is there when both its bit and its operation are; else neither is.
template <typename Op>
void agree(uint64_t *capabilities, uint64_t bit, Op *op) {
    if (*op == nullptr)
        *capabilities &= ~bit;
    if ((*capabilities & bit) == 0)
        *op = nullptr;
}

} // namespace

Plugin::Plugin(std::string path) : path_(std::move(path)), name_(std::filesystem::path(path_).stem()) {}

Plugin::~Plugin() {
    if (handle_ != nullptr)
        dlclose(handle_);
}

Status Plugin::load(const std::string &path, std::shared_ptr<const Plugin> *plugin) {
    const std::shared_ptr<Plugin> loaded(new Plugin(path));
    if (Status status = loaded->open_object(); !status.ok())
        return status;
    if (Status status = loaded->query(); !status.ok())
        return status;
    if (Status status = loaded->check_table(); !status.ok())
        return status;
    if (Status status = loaded->adopt_operations(); !status.ok())
        return status;
    *plugin = loaded;
    return {};
}

Status Plugin::open_object() {
    // A name without a slash would be looked up in the loader's own path.
    const std::string file = path_.find('/') == std::string::npos ? "./" + path_ : path_;
    std::error_code error;
    if (!std::filesystem::exists(file, error))
        return fail(KVF_ERR_NO_TRANSPORT, "no such file");
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr)
        return {KVF_ERR_NO_TRANSPORT, loader_text(file)};
    return {};
}

Status Plugin::query() {
    const auto query = reinterpret_cast<kvf_plugin_query_fn>(dlsym(handle_, "kvf_plugin_query"));
    if (query == nullptr)
        return fail(KVF_ERR_NO_TRANSPORT, "exports no kvf_plugin_query");
    table_.struct_size = sizeof table_;
    clear_plugin_sentence();
    return check_abi(query(plugin_host(), &table_));
}

Status Plugin::check_abi(int rc) {
    const std::string sentence = take_plugin_sentence();
    // A plugin may refuse us before or after it has filled in its version.
    const bool told = rc == KVF_OK || table_.abi_major != 0;
    if (told && table_.abi_major != KVF_PLUGIN_ABI_MAJOR)
        return fail(KVF_ERR_PLUGIN_ABI, "built for plugin ABI %u.%u, this library has %d.%d", table_.abi_major,
                    table_.abi_minor, KVF_PLUGIN_ABI_MAJOR, KVF_PLUGIN_ABI_MINOR);
    if (rc == KVF_OK)
        return {};
    return {rc == KVF_ERR_PLUGIN_ABI ? KVF_ERR_PLUGIN_ABI : KVF_ERR_NO_TRANSPORT,
            sentence.empty() ? status_text(rc) : sentence};
}

Status Plugin::check_table() {
    if (table_.name == nullptr || name_ != table_.name)
        return fail(KVF_ERR_NO_TRANSPORT, "calls itself \"%s\"", table_.name != nullptr ? table_.name : "");
    if (table_.kind != KVF_PLUGIN_TRANSPORT && table_.kind != KVF_PLUGIN_DECORATOR)
        return fail(KVF_ERR_UNSUPPORTED, "is neither a transport nor a decorator (kind %u)", table_.kind);
    if (table_.ops == nullptr)
        return fail(KVF_ERR_NO_TRANSPORT, "has no table of operations");
    if ((table_.capabilities & KVF_CAP_WRITE) == 0)
        return fail(KVF_ERR_NO_TRANSPORT, "can't write (lacks KVF_CAP_WRITE), and rooms are moved by writes");
    return {};
}

Status Plugin::adopt_operations() {
    constexpr size_t kHead = offsetof(kvf_transport_ops, open);
    size_t size = std::min<size_t>(table_.ops->struct_size, sizeof ops_);
    // Whole pointers only; the rest stays null.
    size = size < kHead ? 0 : size - (size - kHead) % sizeof(void *);
    std::memcpy(&ops_, table_.ops, size);
    ops_.struct_size = sizeof ops_;
    if (const char *missing = first_missing(ops_))
        return fail(KVF_ERR_NO_TRANSPORT, "lacks the required operation %s", missing);

    agree(&table_.capabilities, KVF_CAP_CANCEL, &ops_.cancel);
    agree(&table_.capabilities, KVF_CAP_FENCE, &ops_.fence);
    agree(&table_.capabilities, KVF_CAP_WAIT, &ops_.wait);
    agree(&table_.capabilities, KVF_CAP_EVENT_FD, &ops_.event_fd);
    table_.struct_size = sizeof table_;
    table_.ops = &ops_;
    return {};
}

} // namespace kvf
