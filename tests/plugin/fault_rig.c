/* Loads the fault plugin and its fixture as a host does, and opens two engines over them. */
#include "fault_rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread char t_sentence[512];
static char g_variable[64], g_value[64];

static void host_log(int32_t level, const char *message) {
    (void)level;
    (void)message;
}

static void host_fail(const char *sentence) {
    snprintf(t_sentence, sizeof t_sentence, "%s", sentence);
}

static const char *host_config(const char *name) {
    return g_variable[0] != '\0' && strcmp(name, g_variable) == 0 ? g_value : NULL;
}

static const char *host_memory_kind(uint32_t kind) {
    return kind == KVF_MEMORY_HOST ? "host" : NULL;
}

static const kvf_host g_host = {
    sizeof(kvf_host), KVF_PLUGIN_ABI_MAJOR, KVF_PLUGIN_ABI_MINOR, 0, host_log, host_fail, host_config, host_memory_kind,
};

static void load(const char *path, kvf_plugin *plugin) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        fail_msg("%s", dlerror());
    kvf_plugin_query_fn query;
    *(void **)&query = dlsym(handle, "kvf_plugin_query");
    assert_non_null(query);
    memset(plugin, 0, sizeof *plugin);
    plugin->struct_size = sizeof *plugin;
    assert_int_equal(query(&g_host, plugin), KVF_OK);
}

const kvf_plugin *rig_fault(void) {
    static kvf_plugin plugin;
    if (plugin.ops == NULL)
        load(KVF_TEST_PLUGINS "/fault.so", &plugin);
    return &plugin;
}

const kvf_plugin *rig_inner(const char *name) {
    static kvf_plugin plugins[4];
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
        if (plugins[i].name == NULL) {
            char path[512];
            snprintf(path, sizeof path, KVF_TEST_FIXTURES "/good/%s.so", name);
            load(path, &plugins[i]);
        }
        if (strcmp(plugins[i].name, name) == 0)
            return &plugins[i];
    }
    fail_msg("too many fixtures");
    return NULL;
}

const char *rig_sentence(void) {
    return t_sentence;
}

void rig_set_variable(const char *name, const char *value) {
    snprintf(g_variable, sizeof g_variable, "%s", value != NULL ? name : "");
    snprintf(g_value, sizeof g_value, "%s", value != NULL ? value : "");
}

static int open_instance(const char *options, const kvf_plugin *inner, const char *inner_options, uint64_t id,
                         kvf_instance **instance) {
    kvf_open_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    params.instance_id = id;
    params.options = options;
    params.inner = inner;
    params.inner_options = inner_options;
    return rig_fault()->ops->open(&params, instance);
}

int rig_try_open(const char *options) {
    kvf_instance *instance = NULL;
    const int rc = open_instance(options, rig_inner("memory"), "", 1, &instance);
    if (rc == KVF_OK)
        rig_fault()->ops->close(instance);
    return rc;
}

static kvf_region *register_memory(const rig *it, kvf_instance *instance, void *base) {
    kvf_region_params params;
    kvf_region *region = NULL;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    params.fd = -1;
    params.base = base;
    params.length = RIG_BYTES;
    assert_int_equal(it->ops->register_region(instance, &params, &region), KVF_OK);
    return region;
}

void rig_open(rig *it, const char *options, const char *inner, const char *inner_options) {
    unsigned char blob[256];
    size_t size = sizeof blob;
    kvf_peer_params peer;
    memset(it, 0, sizeof *it);
    memset(it->our_memory, 0xaa, sizeof it->our_memory);
    it->ops = rig_fault()->ops;
    assert_int_equal(open_instance(options, rig_inner(inner), inner_options, 1, &it->ours), KVF_OK);
    assert_int_equal(open_instance("", rig_inner(inner), inner_options, 2, &it->theirs), KVF_OK);
    it->our_region = register_memory(it, it->ours, it->our_memory);
    it->their_region = register_memory(it, it->theirs, it->their_memory);
    memset(&peer, 0, sizeof peer);
    assert_int_equal(it->ops->address(it->theirs, blob, &size), KVF_OK);
    peer.struct_size = sizeof peer;
    peer.address = blob;
    peer.address_size = (uint32_t)size;
    peer.instance_id = 2;
    peer.name = "theirs";
    assert_int_equal(it->ops->peer_create(it->ours, &peer, &it->peer), KVF_OK);
    assert_int_equal(it->ops->peer_connect(it->peer, NULL, 0), KVF_OK);
    size = sizeof blob;
    assert_int_equal(it->ops->export_key(it->theirs, it->their_region, blob, &size), KVF_OK);
    assert_int_equal(it->ops->import_key(it->peer, blob, size, &it->remote), KVF_OK);
    assert_int_equal(it->ops->lane_open(it->ours, 0, &it->lane), KVF_OK);
}

void rig_close(rig *it) {
    it->ops->lane_close(it->lane);
    it->ops->release_key(it->peer, it->remote);
    it->ops->peer_destroy(it->peer);
    it->ops->deregister_region(it->ours, it->our_region);
    it->ops->deregister_region(it->theirs, it->their_region);
    it->ops->close(it->ours);
    it->ops->close(it->theirs);
}

void rig_segments(const rig *it, kvf_segment *segments, uint32_t count, uint64_t offset, uint64_t length) {
    memset(segments, 0, count * sizeof *segments);
    for (uint32_t i = 0; i < count; i++) {
        segments[i].local = it->our_region;
        segments[i].remote = it->remote;
        segments[i].local_offset = segments[i].remote_offset = offset + i * length;
        segments[i].length = length;
        segments[i].count = 1;
    }
}

void rig_write(rig *it, uint64_t offset, uint64_t length, uint64_t token) {
    kvf_segment segment;
    uint32_t accepted = 0;
    rig_segments(it, &segment, 1, offset, length);
    assert_int_equal(it->ops->post(it->lane, it->peer, KVF_OP_WRITE, &segment, 1, token, &accepted), KVF_OK);
    assert_int_equal(accepted, 1);
}

uint32_t rig_reap(rig *it, kvf_completion *completions, uint32_t count, uint32_t polls) {
    uint32_t got = 0;
    for (uint32_t i = 0; i < polls && got < count; i++) {
        const int rc = it->ops->poll(it->lane, completions + got, count - got);
        assert_true(rc >= 0);
        got += (uint32_t)rc;
    }
    return got;
}
