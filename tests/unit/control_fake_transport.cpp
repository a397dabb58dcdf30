#include "control_fake_transport.h"

#include "plugin/host.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

struct kvf_instance {
    uint64_t id;
};
struct kvf_region {
    uint64_t length;
    uint64_t number;
};
struct kvf_peer {
    kvf_instance *instance;
};
struct kvf_remote {
    std::string key;
};
struct kvf_lane {};

namespace kvf::test {
namespace {

int outcome(const kvf_instance *instance, const char *operation) {
    const auto it = fake().failures.find({instance->id, operation});
    if (it == fake().failures.end())
        return KVF_OK;
    plugin_host()->fail((std::string(operation) + " was told to fail").c_str());
    return it->second;
}

int give(const std::string &text, void *blob, size_t *size) {
    const size_t room = *size;
    *size = text.size();
    if (room < text.size())
        return KVF_ERR_RANGE;
    std::memcpy(blob, text.data(), text.size());
    return KVF_OK;
}

int open_instance(const kvf_open_params *params, kvf_instance **instance) {
    *instance = new kvf_instance{params->instance_id};
    return KVF_OK;
}

void close_instance(kvf_instance *instance) {
    delete instance;
}

int address(kvf_instance *instance, void *blob, size_t *size) {
    return give("at " + std::to_string(instance->id), blob, size);
}

int register_region(kvf_instance *, const kvf_region_params *params, kvf_region **region) {
    static std::atomic<uint64_t> next = 0;
    *region = new kvf_region{params->length, ++next};
    return KVF_OK;
}

void deregister_region(kvf_instance *, kvf_region *region) {
    delete region;
}

int export_key(kvf_instance *, kvf_region *region, void *blob, size_t *size) {
    return give("key " + std::to_string(region->number), blob, size);
}

int peer_create(kvf_instance *instance, const kvf_peer_params *params, kvf_peer **peer) {
    if (const int rc = outcome(instance, "peer_create"); rc != KVF_OK)
        return rc;
    if (params->address_size < 3 || std::memcmp(params->address, "at ", 3) != 0)
        return KVF_ERR_INVALID;
    *peer = new kvf_peer{instance};
    ++fake().peers;
    return KVF_OK;
}

int peer_export(kvf_peer *peer, void *blob, size_t *size) {
    return give("from " + std::to_string(peer->instance->id), blob, size);
}

int peer_connect(kvf_peer *peer, const void *blob, size_t size) {
    if (const int rc = outcome(peer->instance, "peer_connect"); rc != KVF_OK)
        return rc;
    return size > 5 && std::memcmp(blob, "from ", 5) == 0 ? KVF_OK : KVF_ERR_INVALID;
}

void peer_destroy(kvf_peer *peer) {
    --fake().peers;
    delete peer;
}

int import_key(kvf_peer *peer, const void *blob, size_t size, kvf_remote **remote) {
    if (const int rc = outcome(peer->instance, "import_key"); rc != KVF_OK)
        return rc;
    *remote = new kvf_remote{{static_cast<const char *>(blob), size}};
    ++fake().keys;
    ++fake().imports;
    return KVF_OK;
}

void release_key(kvf_peer *, kvf_remote *remote) {
    --fake().keys;
    delete remote;
}

int lane_open(kvf_instance *, uint32_t, kvf_lane **) {
    return KVF_ERR_UNSUPPORTED;
}
void lane_close(kvf_lane *) {}
int post(kvf_lane *, kvf_peer *, uint32_t, const kvf_segment *, uint32_t, uint64_t, uint32_t *) {
    return KVF_ERR_UNSUPPORTED;
}
int poll(kvf_lane *, kvf_completion *, uint32_t) {
    return 0;
}

int fence(kvf_peer *peer) {
    ++fake().fences;
    return outcome(peer->instance, "fence");
}

} // namespace

FakeTransports &fake() {
    static FakeTransports it;
    return it;
}

std::shared_ptr<Transport> open_fake(const std::string &name, uint64_t instance_id) {
    setenv("KVF_PLUGIN_PATH", FAKE_PLUGIN_FOLDER, 1);
    std::shared_ptr<Transport> out;
    if (Status status = Transport::open(name, "", instance_id, &out); !status.ok()) {
        std::fprintf(stderr, "%s\n", status.sentence().c_str());
        std::abort();
    }
    return out;
}

} // namespace kvf::test

extern "C" KVF_API const kvf_transport_ops fake_transport_ops = {
    .struct_size = sizeof(kvf_transport_ops),
    .reserved = 0,
    .open = kvf::test::open_instance,
    .close = kvf::test::close_instance,
    .address = kvf::test::address,
    .register_region = kvf::test::register_region,
    .deregister_region = kvf::test::deregister_region,
    .export_key = kvf::test::export_key,
    .peer_create = kvf::test::peer_create,
    .peer_connect = kvf::test::peer_connect,
    .peer_destroy = kvf::test::peer_destroy,
    .import_key = kvf::test::import_key,
    .release_key = kvf::test::release_key,
    .lane_open = kvf::test::lane_open,
    .lane_close = kvf::test::lane_close,
    .post = kvf::test::post,
    .poll = kvf::test::poll,
    .peer_export = kvf::test::peer_export,
    .wait = nullptr,
    .event_fd = nullptr,
    .arm = nullptr,
    .cancel = nullptr,
    .fence = kvf::test::fence,
    .counters = nullptr,
};
