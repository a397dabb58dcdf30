// shm: one-sided writes and reads between processes of one host. This file is the plugin's surface: the query and the
// table of operations, each of which only steps from C to the object that does the work, and lets no exception out.
//
// clang-format off
//   host, status      the host's services; how a call fails
//   options           cma=..., map=...
//   instance          one engine's use: who we are (process), its cookie, its counters
//   cookie            what our process says of itself where peers can read and not write (cookie_file)
//   peer_cookie       what a peer's says
//   region            local memory, as the cookie tells of it
//   blob              what peers are told of instance and region
//   peer              another instance: proves that it is reached, by cookie, and by which ways
//   remote            a peer's region: maps a part of its memfd (pools, memfd), or leaves it to cross-memory attach (cma)
//   lane              post copies at once, poll hands out the completions (segment, cma, completion)
//   fence             the end of a peer (gate: how it stops lanes)
//   permission        what to say when the kernel refuses
// clang-format on
#include "host.h"
#include "instance.h"
#include "lane.h"
#include "peer.h"
#include "region.h"
#include "remote.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace shm {
namespace {

// Runs a call behind which no exception may come out; hands its sentence to the host.
template <typename Call>
int answer(Call call) noexcept {
    try {
        const Status status = call();
        if (!status.ok())
            host().fail(status.sentence().c_str());
        return status.code();
    } catch (const std::bad_alloc &) {
        host().fail("shm: out of memory");
        return KVF_ERR_NO_MEMORY;
    } catch (...) {
        host().fail("shm: internal error");
        return KVF_ERR_INTERNAL;
    }
}

// The same for a call that makes an object, which then is the host's.
template <typename Object, typename Call>
int answer_with(Object **made, Call call) noexcept {
    return answer([&] {
        std::unique_ptr<Object> object;
        Status status = call(object);
        *made = object.release();
        return status;
    });
}

int open(const kvf_open_params *params, kvf_instance **instance) {
    return answer_with(instance, [&](auto &made) { return kvf_instance::open(*params, made); });
}

void close(kvf_instance *instance) {
    delete instance;
}

int address(kvf_instance *instance, void *blob, size_t *size) {
    return answer([&] { return encode(instance->address(), blob, size); });
}

int register_region(kvf_instance *instance, const kvf_region_params *params, kvf_region **region) {
    return answer_with(region, [&](auto &made) { return kvf_region::register_with(*instance, *params, made); });
}

void deregister_region(kvf_instance *, kvf_region *region) {
    delete region;
}

int export_key(kvf_instance *, kvf_region *region, void *blob, size_t *size) {
    return answer([&] { return encode(region->key(), blob, size); });
}

int peer_create(kvf_instance *instance, const kvf_peer_params *params, kvf_peer **peer) {
    return answer_with(peer, [&](auto &made) { return kvf_peer::create(*instance, *params, made); });
}

int peer_export(kvf_peer *peer, void *blob, size_t *size) {
    return answer([&] { return encode(peer->greeting(), blob, size); });
}

int peer_connect(kvf_peer *peer, const void *blob, size_t size) {
    return answer([&] {
        Greeting greeting{};
        Status status = decode(blob, size, greeting);
        return status.ok() ? peer->connect(greeting) : status;
    });
}

void peer_destroy(kvf_peer *peer) {
    delete peer;
}

int import_key(kvf_peer *peer, const void *blob, size_t size, kvf_remote **remote) {
    return answer_with(remote, [&](auto &made) {
        Key key{};
        Status status = decode(blob, size, key);
        return status.ok() ? kvf_remote::import(*peer, key, made) : status;
    });
}

void release_key(kvf_peer *, kvf_remote *remote) {
    delete remote;
}

int lane_open(kvf_instance *instance, uint32_t, kvf_lane **lane) {
    return answer_with(lane, [&](auto &made) {
        made = std::make_unique<kvf_lane>(*instance);
        return Status();
    });
}

void lane_close(kvf_lane *lane) {
    delete lane;
}

int post(kvf_lane *lane, kvf_peer *peer, uint32_t op, const kvf_segment *segments, uint32_t count, uint64_t token,
         uint32_t *accepted) {
    return answer([&] { return lane->post(*peer, op, segments, count, token, *accepted); });
}

int poll(kvf_lane *lane, kvf_completion *completions, uint32_t capacity) {
    return static_cast<int>(lane->poll(completions, capacity));
}

int fence(kvf_peer *peer) {
    return answer([&] { return peer->fence(); });
}

int counters(kvf_instance *instance, kvf_counter *list, size_t capacity) {
    return instance->read_counters(list, capacity);
}

constexpr kvf_transport_ops kOps = {
    .struct_size = sizeof(kvf_transport_ops),
    .reserved = 0,
    .open = open,
    .close = close,
    .address = address,
    .register_region = register_region,
    .deregister_region = deregister_region,
    .export_key = export_key,
    .peer_create = peer_create,
    .peer_connect = peer_connect,
    .peer_destroy = peer_destroy,
    .import_key = import_key,
    .release_key = release_key,
    .lane_open = lane_open,
    .lane_close = lane_close,
    .post = post,
    .poll = poll,
    .peer_export = peer_export,
    // A post is over when it returns, so there is nothing to wait for or to cancel.
    .wait = nullptr,
    .event_fd = nullptr,
    .arm = nullptr,
    .cancel = nullptr,
    .fence = fence,
    .counters = counters,
};

// What it stands on is the kernel, so that is the version it names.
const char *description() {
    static const std::string line = [] {
        utsname system{};
        uname(&system);
        return text("mapped memfds and cross-memory attach on one host; %s %.40s", system.sysname, system.release);
    }();
    return line.c_str();
}

Status query(const kvf_host &services, kvf_plugin &plugin) {
    if (services.abi_major != KVF_PLUGIN_ABI_MAJOR)
        return fail(KVF_ERR_PLUGIN_ABI, "shm is built for plugin ABI %d, the host has %u", KVF_PLUGIN_ABI_MAJOR,
                    services.abi_major);
    if (const Fd self(pidfd_open(getpid())); !self)
        return fail(KVF_ERR_UNSUPPORTED, "shm needs pidfd_open (Linux 5.3): %s", errno_text(errno));
    kvf_plugin out{};
    out.struct_size = std::min<uint32_t>(plugin.struct_size, sizeof out);
    out.abi_major = KVF_PLUGIN_ABI_MAJOR;
    out.abi_minor = KVF_PLUGIN_ABI_MINOR;
    out.kind = KVF_PLUGIN_TRANSPORT;
    out.name = "shm";
    out.description = description();
    out.capabilities = KVF_CAP_WRITE | KVF_CAP_READ | KVF_CAP_STRIDED | KVF_CAP_FENCE | KVF_CAP_SAME_HOST;
    out.ops = &kOps;
    memcpy(&plugin, &out, out.struct_size);
    return {};
}

} // namespace
} // namespace shm

int kvf_plugin_query(const kvf_host *host, kvf_plugin *plugin) {
    shm::set_host(host);
    return shm::answer([&] { return shm::query(*host, *plugin); });
}
