/*
 * A stranger's program, in the C that is also C++: two engines in one process, one page over shared memory. It fails
 * when a byte is not what was sent, or when its argument is not the version of the library.
 */
#include <kvferry/kvferry.h>
#include <kvferry/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096, PAGES = 2, WAIT_MS = 30000 };

static void check(int status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, kvf_status_name(status), kvf_last_error());
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

static kvf_engine *start(uint32_t role, unsigned char **pages) {
    kvf_engine_config config;
    kvf_engine *engine;
    kvf_tensor tensor;
    void *memory;

    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.role = role;
    CHECK(kvf_engine_create(&config, &engine));
    CHECK(kvf_engine_load_transport(engine, "shm", NULL));
    CHECK(kvf_memory_alloc(engine, PAGES * PAGE_BYTES, &memory));

    memset(&tensor, 0, sizeof tensor);
    tensor.part = KVF_PART_K;
    tensor.base = memory;
    tensor.page_count = PAGES;
    tensor.page_bytes = PAGE_BYTES;
    CHECK(kvf_engine_register(engine, &tensor, 1, sizeof tensor));
    *pages = (unsigned char *)memory;
    return engine;
}

int main(int argc, char **argv) {
    unsigned char *from, *to;
    kvf_engine *prefill, *decode;
    kvf_room sender, receiver;
    kvf_room_status status;
    kvf_index_list list;
    kvf_chunk chunk;
    uint32_t from_page = 0, to_page = 1;
    int i;

    if (kvf_version() != KVF_VERSION || (argc > 1 && strcmp(argv[1], kvf_version_string()) != 0)) {
        fprintf(stderr, "the library is %s\n", kvf_version_string());
        return 1;
    }

    prefill = start(KVF_ROLE_PREFILL, &from);
    decode = start(KVF_ROLE_DECODE, &to);
    for (i = 0; i < PAGE_BYTES; i++) {
        from[i] = (unsigned char)(i * 7 + 1);
    }

    CHECK(kvf_room_open_sender(prefill, 42, NULL, &sender));
    CHECK(kvf_room_open_receiver(decode, kvf_engine_address(prefill), 42, NULL, &receiver));

    list.group = 0;
    list.count = 1;
    list.indices = &to_page;
    CHECK(kvf_room_accept(decode, receiver, &list, 1, sizeof list));
    list.indices = &from_page;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = KVF_CHUNK_LAST;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    CHECK(kvf_room_send(prefill, sender, &chunk));

    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    CHECK(kvf_room_wait(decode, receiver, WAIT_MS, &status));
    if (status.state != KVF_STATE_SUCCESS || (status.flags & KVF_ROOM_QUIESCED) == 0) {
        fprintf(stderr, "the room ended in state %u: %s\n", (unsigned)status.state, kvf_strerror(status.code));
        return 1;
    }
    if (memcmp(from, to + PAGE_BYTES, PAGE_BYTES) != 0) {
        fprintf(stderr, "the page is not what was sent\n");
        return 1;
    }
    for (i = 0; i < PAGE_BYTES; i++) {
        if (to[i] != 0) {
            fprintf(stderr, "byte %d of the page beside it was written\n", i);
            return 1;
        }
    }

    CHECK(kvf_room_wait(prefill, sender, WAIT_MS, NULL));
    CHECK(kvf_room_close(decode, receiver));
    CHECK(kvf_room_close(prefill, sender));
    CHECK(kvf_engine_destroy(decode, WAIT_MS));
    CHECK(kvf_engine_destroy(prefill, WAIT_MS));
    return 0;
}
