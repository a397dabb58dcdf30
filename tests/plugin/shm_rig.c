#define _GNU_SOURCE
#include "shm_rig.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------- the plugin */

/* Lanes of several threads may fail at the same time. */
static __thread char sentence[1024];
static const char *variable_name, *variable_value;

static void host_log(int32_t level, const char *message) {
    if (level <= KVF_LOG_WARN)
        print_message("log: %s\n", message);
}

static void host_fail(const char *said) {
    snprintf(sentence, sizeof sentence, "%s", said);
}

static const char *host_config(const char *name) {
    return variable_name != NULL && strcmp(name, variable_name) == 0 ? variable_value : NULL;
}

static const char *host_memory_kind(uint32_t kind) {
    return kind == KVF_MEMORY_HOST ? "host" : NULL;
}

const kvf_host *shm_host(void) {
    static const kvf_host host = {sizeof(kvf_host), KVF_PLUGIN_ABI_MAJOR, KVF_PLUGIN_ABI_MINOR, 0, host_log,
                                  host_fail,        host_config,          host_memory_kind};
    return &host;
}

int shm_query(const kvf_host *host, kvf_plugin *plugin) {
    static kvf_plugin_query_fn query;
    if (query == NULL) {
        void *object = dlopen(KVF_TEST_PLUGINS "/shm.so", RTLD_NOW | RTLD_LOCAL);
        if (object == NULL)
            fail_msg("%s", dlerror());
        /* The way that POSIX names to get a function out of dlsym. */
        *(void **)&query = dlsym(object, "kvf_plugin_query");
        assert_non_null(query);
    }
    return query(host, plugin);
}

const kvf_plugin *shm_plugin(void) {
    static kvf_plugin plugin;
    if (plugin.ops == NULL) {
        plugin.struct_size = sizeof plugin;
        expect_status(KVF_OK, shm_query(shm_host(), &plugin));
    }
    return &plugin;
}

const kvf_transport_ops *shm_ops(void) {
    return shm_plugin()->ops;
}

const char *shm_sentence(void) {
    return sentence;
}

void shm_set_variable(const char *name, const char *value) {
    variable_name = name;
    variable_value = value;
}

void shm_expect(int expected, int status, const char *call, const char *file, int line) {
    if (status == expected)
        return;
    print_error("%s:%d: %s is %d, not %d: %s\n", file, line, call, status, expected, sentence);
    fail();
}

void shm_expect_words(const char *words, const char *file, int line) {
    if (strstr(sentence, words) != NULL)
        return;
    print_error("%s:%d: \"%s\" says nothing of \"%s\"\n", file, line, sentence, words);
    fail();
}

/* ------------------------------------------------------------------------------------------------------ memory */

memory memory_new(memory_kind kind, size_t size) {
    memory out = {NULL, size, -1};
    if (kind == MEMORY_PLAIN) {
        out.base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else {
        out.fd = memfd_create("shm-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_true(out.fd >= 0);
        assert_int_equal(ftruncate(out.fd, (off_t)size), 0);
        if (kind == MEMORY_SEALED)
            assert_int_equal(fcntl(out.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        out.base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, out.fd, 0);
    }
    assert_ptr_not_equal(out.base, MAP_FAILED);
    return out;
}

void memory_free(memory *it) {
    munmap(it->base, it->size);
    if (it->fd >= 0)
        close(it->fd);
}

void memory_fill(unsigned char *at, size_t size, uint32_t seed) {
    uint32_t state = seed * 2654435761u + 1;
    for (size_t i = 0; i < size; ++i) {
        state = state * 1664525u + 1013904223u;
        at[i] = (unsigned char)(state >> 24);
    }
}

uint64_t memory_checksum(const unsigned char *at, size_t size) {
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < size; ++i)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

/* -------------------------------------------------------------------------------------------------------- sides */

static int open_instance(uint64_t id, const char *options, kvf_instance **instance) {
    const kvf_open_params params = {sizeof params, 0, id, options, NULL, NULL};
    return shm_ops()->open(&params, instance);
}

int side_try_open(const char *options) {
    kvf_instance *instance = NULL;
    int status = open_instance(1, options, &instance);
    if (status == KVF_OK)
        shm_ops()->close(instance);
    return status;
}

int side_register(const side *it, const memory *of, uint64_t fd_offset, uint64_t length, kvf_region **region) {
    const kvf_region_params params = {sizeof params, KVF_MEMORY_HOST,           0, of->fd, of->base + fd_offset,
                                      length,        of->fd < 0 ? 0 : fd_offset};
    return shm_ops()->register_region(it->instance, &params, region);
}

void side_open(side *it, memory_kind kind, size_t size, const char *options) {
    const kvf_transport_ops *ops = shm_ops();
    static uint64_t opened;
    it->id = (uint64_t)getpid() << 32 | ++opened;
    expect_status(KVF_OK, open_instance(it->id, options, &it->instance));
    it->memory = memory_new(kind, size);
    expect_status(KVF_OK, side_register(it, &it->memory, 0, size, &it->region));
    expect_status(KVF_OK, ops->lane_open(it->instance, 0, &it->lane));
    it->address.size = sizeof it->address.bytes;
    expect_status(KVF_OK, ops->address(it->instance, it->address.bytes, &it->address.size));
    it->address.instance = it->id;
    it->key = side_export(it, it->region);
}

blob side_export(const side *it, kvf_region *region) {
    blob key = {.size = BLOB_BYTES};
    expect_status(KVF_OK, shm_ops()->export_key(it->instance, region, key.bytes, &key.size));
    return key;
}

void side_close_instance(side *it) {
    shm_ops()->lane_close(it->lane);
    shm_ops()->deregister_region(it->instance, it->region);
    shm_ops()->close(it->instance);
}

void side_close(side *it) {
    side_close_instance(it);
    memory_free(&it->memory);
}

uint64_t side_counter(const side *it, const char *name) {
    kvf_counter list[32];
    const int count = shm_ops()->counters(it->instance, list, 32);
    assert_in_range(count, 1, 32);
    for (int i = 0; i < count; ++i) {
        if (strcmp(list[i].name, name) == 0)
            return list[i].value;
    }
    fail_msg("no counter is named %s", name);
    return 0;
}

int link_create(const side *from, const blob *address, kvf_peer **peer) {
    const kvf_peer_params params = {sizeof params, (uint32_t)address->size, address->bytes, address->instance,
                                    "the other"};
    return shm_ops()->peer_create(from->instance, &params, peer);
}

blob link_greeting(kvf_peer *peer) {
    blob greeting = {.size = BLOB_BYTES};
    expect_status(KVF_OK, shm_ops()->peer_export(peer, greeting.bytes, &greeting.size));
    return greeting;
}

int link_greet(kvf_peer *peer, const blob *greeting) {
    return shm_ops()->peer_connect(peer, greeting->bytes, greeting->size);
}

int link_connect(const side *from, const blob *address, kvf_peer **peer) {
    const int status = link_create(from, address, peer);
    if (status != KVF_OK)
        return status;
    const blob greeting = link_greeting(*peer);
    return link_greet(*peer, &greeting);
}

void link_meet(shm_link *it, const side *from, const side *to) {
    it->remote = NULL;
    expect_status(KVF_OK, link_create(from, &to->address, &it->peer));
    expect_status(KVF_OK, link_create(to, &from->address, &it->back));
    const blob ours = link_greeting(it->peer), theirs = link_greeting(it->back);
    expect_status(KVF_OK, link_greet(it->peer, &theirs));
    expect_status(KVF_OK, link_greet(it->back, &ours));
}

int link_import(shm_link *it, const blob *key) {
    return shm_ops()->import_key(it->peer, key->bytes, key->size, &it->remote);
}

void link_open(shm_link *it, const side *from, const side *to) {
    link_meet(it, from, to);
    expect_status(KVF_OK, link_import(it, &to->key));
}

void link_part(shm_link *it) {
    if (it->back != NULL)
        shm_ops()->peer_destroy(it->back);
    it->back = NULL;
}

void link_close(shm_link *it) {
    if (it->remote != NULL)
        shm_ops()->release_key(it->peer, it->remote);
    shm_ops()->peer_destroy(it->peer);
    link_part(it);
}

/* --------------------------------------------------------------------------------------------------- transfers */

kvf_segment segment_of(const side *local, const shm_link *remote, uint64_t local_offset, uint64_t remote_offset,
                       uint64_t length) {
    const kvf_segment out = {local->region, remote->remote, local_offset, remote_offset, length, 1, 0, 0};
    return out;
}

static void reap(const side *from, uint64_t token, outcome *out) {
    kvf_completion completion;
    assert_int_equal(shm_ops()->poll(from->lane, &completion, 1), 1);
    assert_int_equal(completion.token, token);
    out->bytes += completion.bytes;
    if (completion.status == KVF_OK)
        return;
    out->status = completion.status;
    snprintf(out->message, sizeof out->message, "%s", completion.message);
}

outcome transfer(const side *from, const shm_link *to, uint32_t op, const kvf_segment *segments, uint32_t count) {
    outcome out = {KVF_OK, KVF_OK, 0, 0, ""};
    for (uint32_t done = 0; done < count && out.status == KVF_OK;) {
        uint32_t accepted = 0;
        const uint64_t token = 1000 + done;
        out.refused = shm_ops()->post(from->lane, to->peer, op, segments + done, count - done, token, &accepted);
        if (out.refused != KVF_OK) {
            assert_int_equal(accepted, 0);
            return out;
        }
        assert_in_range(accepted, 1, count - done);
        reap(from, token, &out);
        done += accepted;
        ++out.posts;
    }
    return out;
}

void transfer_all(const side *from, const shm_link *to, uint32_t op, const kvf_segment *segments, uint32_t count) {
    const outcome out = transfer(from, to, op, segments, count);
    if (out.refused != KVF_OK)
        fail_msg("post is refused with %d: %s", out.refused, shm_sentence());
    if (out.status != KVF_OK)
        fail_msg("completed with %d: %s", out.status, out.message);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; ++i)
        bytes += segments[i].length * segments[i].count;
    assert_int_equal(out.bytes, bytes);
}
