#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void expect_ok(int got, const char *call, const char *file, int line) {
    if (got == KVF_OK)
        return;
    print_error("%s\n  is %s: %s\n", call, kvf_status_name(got), kvf_last_error());
    _fail(file, line);
}

void expect_error(int got, int status, const char *text, const char *call, const char *file, int line) {
    const int fits = got == status && strstr(kvf_last_error(), text) != NULL;
    if (fits)
        return;
    print_error("%s\n  is %s: %s\n  expected %s: ...%s...\n", call, kvf_status_name(got), kvf_last_error(),
                kvf_status_name(status), text);
    _fail(file, line);
}

void look_again(int *looks) {
    if (++*looks > LONG_MS)
        fail_msg("it did not become true");
    poll(NULL, 0, 1);
}

/* ------------------------------------------------------------------------------------------------------- engines */

kvf_engine_config config_of(uint32_t role) {
    kvf_engine_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.role = role;
    config.name = role == KVF_ROLE_PREFILL ? "prefill" : "decode";
    config.max_rooms = 1024;
    config.shards = 2;
    config.rank = role == KVF_ROLE_PREFILL ? 3 : 5;
    return config;
}

void tensors_of(unsigned char *memory, kvf_tensor tensors[TENSORS]) {
    memset(tensors, 0, TENSORS * sizeof *tensors);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        tensors[layer].layer = layer;
        tensors[layer].dtype = 1;
        tensors[layer].base = page_at(memory, layer, 0);
        tensors[layer].page_count = PAGES;
        tensors[layer].page_bytes = PAGE_BYTES;
    }
    tensors[LAYERS].group = AUX;
    tensors[LAYERS].part = KVF_PART_AUX;
    tensors[LAYERS].base = aux_at(memory, 0);
    tensors[LAYERS].page_count = AUX_PAGES;
    tensors[LAYERS].page_bytes = AUX_BYTES;
}

kvf_engine *engine_open(const kvf_engine_config *config, unsigned char **memory) {
    kvf_engine *engine = NULL;
    EXPECT_OK(kvf_engine_create(config, &engine));
    EXPECT_OK(kvf_engine_load_transport(engine, "shm", NULL));
    if (memory != NULL) {
        kvf_tensor tensors[TENSORS];
        void *allocated = NULL;
        EXPECT_OK(kvf_memory_alloc(engine, MEMORY_BYTES, &allocated));
        *memory = allocated;
        tensors_of(*memory, tensors);
        EXPECT_OK(kvf_engine_register(engine, tensors, TENSORS, sizeof *tensors));
    }
    return engine;
}

void pair_open(pair *it, const kvf_engine_config *prefill, const kvf_engine_config *decode) {
    const kvf_engine_config plain_prefill = config_of(KVF_ROLE_PREFILL), plain_decode = config_of(KVF_ROLE_DECODE);
    uint32_t random = 12345;
    memset(it, 0, sizeof *it);
    it->prefill = engine_open(prefill != NULL ? prefill : &plain_prefill, &it->from);
    it->decode = engine_open(decode != NULL ? decode : &plain_decode, &it->to);
    for (size_t i = 0; i < MEMORY_BYTES; i++) {
        random = random * 1664525 + 1013904223;
        it->from[i] = (unsigned char)(random >> 24 | 1);
    }
}

void pair_close(pair *it) {
    static const char *const gauges[] = {"open_rooms", "open_handles", "open_operations", "open_seeks"};
    kvf_engine *const engines[] = {it->decode, it->prefill};
    for (size_t e = 0; e < 2; e++)
        for (size_t g = 0; g < sizeof gauges / sizeof *gauges; g++)
            await_counter(engines[e], gauges[g], 0);
    EXPECT_OK(kvf_engine_destroy(it->decode, LONG_MS));
    EXPECT_OK(kvf_engine_destroy(it->prefill, LONG_MS));
}

uint64_t counter_of(kvf_engine *engine, const char *name) {
    kvf_counter counters[128];
    const int count = kvf_engine_counters(engine, counters, 128, sizeof *counters);
    assert_in_range(count, 1, 128);
    for (int i = 0; i < count; i++)
        if (strcmp(counters[i].name, name) == 0)
            return counters[i].value;
    fail_msg("there is no counter %s", name);
    return 0;
}

void await_counter(kvf_engine *engine, const char *name, uint64_t value) {
    for (int looks = 0; counter_of(engine, name) != value;)
        look_again(&looks);
}

/* --------------------------------------------------------------------------------------------------------- memory */

unsigned char *page_at(unsigned char *memory, uint32_t layer, uint32_t page) {
    return memory + ((size_t)layer * PAGES + page) * PAGE_BYTES;
}

unsigned char *aux_at(unsigned char *memory, uint32_t page) {
    return memory + (size_t)LAYERS * PAGES * PAGE_BYTES + (size_t)page * AUX_BYTES;
}

void expect_arrived(const pair *it, const uint32_t *from, const uint32_t *to, uint32_t count) {
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t i = 0; i < count; i++)
            assert_memory_equal(page_at(it->to, layer, to[i]), page_at(it->from, layer, from[i]), PAGE_BYTES);
}

void expect_untouched(const pair *it) {
    for (size_t i = 0; i < MEMORY_BYTES; i++)
        assert_int_equal(it->to[i], 0);
}

/* ---------------------------------------------------------------------------------------------------------- rooms */

int accept_pages(kvf_engine *engine, kvf_room room, const uint32_t *pages, uint32_t count) {
    const kvf_index_list list = {0, count, pages};
    return kvf_room_accept(engine, room, &list, 1, sizeof list);
}

int send_pages(kvf_engine *engine, kvf_room room, const uint32_t *pages, uint32_t count, uint32_t flags) {
    const kvf_index_list list = {0, count, pages};
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = flags;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    return kvf_room_send(engine, room, &chunk);
}

void open_rooms(const pair *it, uint64_t room_id, kvf_room *sender, kvf_room *receiver) {
    EXPECT_OK(kvf_room_open_sender(it->prefill, room_id, NULL, sender));
    EXPECT_OK(kvf_room_open_receiver(it->decode, kvf_engine_address(it->prefill), room_id, NULL, receiver));
}

kvf_room_status status_of(kvf_engine *engine, kvf_room room) {
    kvf_room_status status;
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    EXPECT_OK(kvf_room_poll(engine, room, &status));
    return status;
}

kvf_report report_of(kvf_engine *engine, kvf_room room) {
    kvf_report report;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    EXPECT_OK(kvf_room_report(engine, room, &report));
    return report;
}

void expect_end(kvf_engine *engine, kvf_room room, int code, const char *file, int line) {
    kvf_room_status status;
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    expect_ok(kvf_room_wait(engine, room, LONG_MS, &status), "kvf_room_wait", file, line);
    if (status.code == code && status.state == (code == KVF_OK ? KVF_STATE_SUCCESS : KVF_STATE_FAILED))
        return;
    print_error("the room ended with %s: %s\n  expected %s\n", kvf_status_name(status.code),
                report_of(engine, room).message, kvf_status_name(code));
    _fail(file, line);
}

void await(kvf_engine *engine, kvf_room room, uint32_t state) {
    for (int looks = 0;;) {
        const kvf_room_status status = status_of(engine, room);
        if (state == UINT32_MAX ? (status.flags & KVF_ROOM_QUIESCED) != 0 : status.state == state)
            return;
        look_again(&looks);
    }
}

void close_room(kvf_engine *engine, kvf_room room) {
    await(engine, room, UINT32_MAX);
    EXPECT_OK(kvf_room_close(engine, room));
}
