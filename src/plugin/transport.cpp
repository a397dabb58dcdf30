// Opening transports, and their instance, region, peer and key calls as statuses.
#include "plugin/transport.h"

#include "base/options.h"
#include "base/status_text.h"
#include "plugin/host.h"
#include "plugin/loader.h"

#include <algorithm>
#include <limits>

namespace kvf {
namespace {

constexpr size_t kFirstBlob = 512;
constexpr size_t kMostBlob = size_t{1} << 20; // of one address or key; more is a plugin gone wrong

// Splits the options of a decorated transport.
void divide_options(const Options &all, const std::string &inner_name, Options *outer, Options *inner) {
    const std::string prefix = inner_name + '.';
    for (const auto &[key, value] : all) {
        if (key.starts_with(prefix))
            inner->emplace_back(key.substr(prefix.size()), value);
        else
            outer->emplace_back(key, value);
    }
}

// A decorator can do what both can, and reaches no further than what it stands on.
uint64_t combine(uint64_t decorator, uint64_t inner) {
    constexpr uint64_t kLimits = KVF_CAP_SAME_HOST;
    return (decorator & inner & ~kLimits) | ((decorator | inner) & kLimits);
}

} // namespace

Status Transport::open(const std::string &name, const std::string &options, uint64_t instance_id,
                       std::shared_ptr<Transport> *out) {
    const std::shared_ptr<Transport> transport(new Transport);
    if (Status status = transport->load(name); !status.ok())
        return status;
    if (Status status = transport->open_instance(options, instance_id); !status.ok())
        return status;
    *out = transport;
    return {};
}

Status Transport::load(const std::string &name) {
    name_ = name;
    const size_t plus = name.find('+');
    const std::string outer = name.substr(0, plus);
    if (Status status = load_plugin(outer, &plugin_); !status.ok())
        return status;
    capabilities_ = plugin_->capabilities();
    if (plus == std::string::npos) {
        if (plugin_->kind() == KVF_PLUGIN_DECORATOR)
            return fail(KVF_ERR_UNSUPPORTED, "%s is a decorator; name the transport below it, as in %s+shm",
                        outer.c_str(), outer.c_str());
        return {};
    }
    if (plugin_->kind() != KVF_PLUGIN_DECORATOR)
        return fail(KVF_ERR_UNSUPPORTED, "%s is not a decorator, so %s can't be", outer.c_str(), name.c_str());
    const std::string inner = name.substr(plus + 1);
    if (inner.find('+') != std::string::npos)
        return fail(KVF_ERR_UNSUPPORTED, "%s: one decorator at most", name.c_str());
    if (Status status = load_plugin(inner, &inner_); !status.ok())
        return status;
    if (inner_->kind() != KVF_PLUGIN_TRANSPORT)
        return fail(KVF_ERR_UNSUPPORTED, "%s is not a transport, so %s can't be", inner.c_str(), name.c_str());
    capabilities_ = combine(capabilities_, inner_->capabilities());
    return {};
}

Status Transport::open_instance(const std::string &options, uint64_t instance_id) {
    Options outer_options;
    if (Status status = parse_options(options, &outer_options); !status.ok())
        return {status.code(), name_ + ": " + status.sentence()};
    kvf_open_params params{};
    params.struct_size = sizeof params;
    params.instance_id = instance_id;
    Options inner_options;
    if (inner_ != nullptr) {
        const Options all = std::move(outer_options);
        outer_options.clear();
        divide_options(all, inner_->name(), &outer_options, &inner_options);
        params.inner = &inner_->table();
    }
    const std::string outer_text = join_options(outer_options);
    const std::string inner_text = join_options(inner_options);
    params.options = outer_text.c_str();
    params.inner_options = inner_text.c_str();

    clear_plugin_sentence();
    if (Status status = result(plugin_->ops().open(&params, &instance_)); !status.ok()) {
        instance_ = nullptr;
        return status;
    }
    if (instance_ == nullptr)
        return fail(KVF_ERR_TRANSPORT, "%s: opened no instance", name_.c_str());
    return {};
}

Transport::~Transport() {
    if (instance_ != nullptr)
        plugin_->ops().close(instance_);
}

Status Transport::result(int rc) const {
    if (rc == KVF_OK)
        return {};
    const int code = code_of(rc);
    std::string sentence = take_plugin_sentence();
    if (sentence.empty())
        sentence = status_text(code);
    return {code, name_ + ": " + sentence};
}

template <typename Call>
Status Transport::read_blob(Call call, Blob *blob) {
    blob->assign(kFirstBlob, 0);
    // The blob may grow between two calls, but not for ever.
    for (int attempt = 0; attempt < 4; ++attempt) {
        size_t size = blob->size();
        clear_plugin_sentence();
        const int rc = call(blob->data(), &size);
        if (rc == KVF_OK && size <= blob->size()) {
            blob->resize(size);
            return {};
        }
        if (rc != KVF_OK && (rc != KVF_ERR_RANGE || size <= blob->size())) {
            blob->clear();
            return result(rc);
        }
        if (rc == KVF_OK || size > kMostBlob)
            break;
        blob->assign(size, 0);
    }
    blob->clear();
    return fail(KVF_ERR_TRANSPORT, "%s: gives an address or key of no definite size", name_.c_str());
}

Status Transport::address(Blob *blob) {
    return read_blob([this](void *to, size_t *size) { return plugin_->ops().address(instance_, to, size); }, blob);
}

Status Transport::register_region(const kvf_region_params &params, kvf_region **region) {
    kvf_region_params sized = params;
    sized.struct_size = sizeof sized;
    clear_plugin_sentence();
    return result(plugin_->ops().register_region(instance_, &sized, region));
}

void Transport::deregister_region(kvf_region *region) {
    plugin_->ops().deregister_region(instance_, region);
}

Status Transport::export_key(kvf_region *region, Blob *blob) {
    return read_blob(
        [this, region](void *to, size_t *size) { return plugin_->ops().export_key(instance_, region, to, size); },
        blob);
}

Status Transport::peer_create(std::span<const uint8_t> address, uint64_t instance_id, const std::string &name,
                              kvf_peer **peer) {
    if (address.size() > std::numeric_limits<uint32_t>::max())
        return fail(KVF_ERR_PROTOCOL, "%s: address of %zu bytes", name_.c_str(), address.size());
    kvf_peer_params params{};
    params.struct_size = sizeof params;
    params.address = address.data();
    params.address_size = static_cast<uint32_t>(address.size());
    params.instance_id = instance_id;
    params.name = name.c_str();
    clear_plugin_sentence();
    return result(plugin_->ops().peer_create(instance_, &params, peer));
}

Status Transport::peer_export(kvf_peer *peer, Blob *blob) {
    blob->clear();
    if (plugin_->ops().peer_export == nullptr)
        return {};
    return read_blob([this, peer](void *to, size_t *size) { return plugin_->ops().peer_export(peer, to, size); }, blob);
}

Status Transport::peer_connect(kvf_peer *peer, std::span<const uint8_t> blob) {
    clear_plugin_sentence();
    return result(plugin_->ops().peer_connect(peer, blob.empty() ? nullptr : blob.data(), blob.size()));
}

void Transport::peer_destroy(kvf_peer *peer) {
    plugin_->ops().peer_destroy(peer);
}

Status Transport::import_key(kvf_peer *peer, std::span<const uint8_t> blob, kvf_remote **remote) {
    clear_plugin_sentence();
    return result(plugin_->ops().import_key(peer, blob.data(), blob.size(), remote));
}

void Transport::release_key(kvf_peer *peer, kvf_remote *remote) {
    plugin_->ops().release_key(peer, remote);
}

Status Transport::fence(kvf_peer *peer) {
    if (!can(KVF_CAP_FENCE))
        return fail(KVF_ERR_UNSUPPORTED, "%s: has no fence", name_.c_str());
    clear_plugin_sentence();
    return result(plugin_->ops().fence(peer));
}

std::vector<kvf_counter> Transport::counters() {
    std::vector<kvf_counter> out;
    if (plugin_->ops().counters == nullptr)
        return out;
    const int count = plugin_->ops().counters(instance_, nullptr, 0);
    if (count <= 0)
        return out;
    out.resize(static_cast<size_t>(count));
    const int filled = plugin_->ops().counters(instance_, out.data(), out.size());
    out.resize(static_cast<size_t>(std::clamp(filled, 0, count)));
    return out;
}

} // namespace kvf
