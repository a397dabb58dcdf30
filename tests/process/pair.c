#include "pair.h"

#include <string.h>

static kvf_engine *open_engine(uint32_t role, uint32_t waiting_ms, unsigned char **memory) {
    kvf_engine_config config;
    kvf_tensor tensor;
    kvf_engine *engine = NULL;
    void *allocated = NULL;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.role = role;
    config.name = role == KVF_ROLE_DECODE ? "decode" : "prefill";
    config.shards = 2;
    config.max_rooms = 8192;
    config.waiting_ms = waiting_ms;
    MUST(kvf_engine_create(&config, &engine));
    MUST(kvf_engine_load_transport(engine, "shm", NULL));
    MUST(kvf_memory_alloc(engine, (size_t)PAIR_PAGES * PAIR_PAGE_BYTES, &allocated));
    memset(&tensor, 0, sizeof tensor);
    tensor.base = *memory = allocated;
    tensor.page_count = PAIR_PAGES;
    tensor.page_bytes = PAIR_PAGE_BYTES;
    MUST(kvf_engine_register(engine, &tensor, 1, sizeof tensor));
    return engine;
}

void pair_open(pair *it, uint32_t waiting_ms) {
    it->prefill = open_engine(KVF_ROLE_PREFILL, waiting_ms, &it->from);
    it->decode = open_engine(KVF_ROLE_DECODE, waiting_ms, &it->to);
}

void pair_close(pair *it) {
    MUST(kvf_engine_destroy(it->decode, LONG_MS));
    await_no_gauge(it->prefill);
    MUST(kvf_engine_destroy(it->prefill, LONG_MS));
}

int pair_room(const pair *it, uint64_t room_id, uint32_t bootstrap_ms, kvf_room *sender, kvf_room *receiver) {
    const uint32_t page = (uint32_t)(room_id % PAIR_PAGES);
    const kvf_index_list list = {0, 1, &page};
    kvf_sender_options sends;
    kvf_receiver_options receives;
    kvf_chunk chunk;
    int status;
    memset(&sends, 0, sizeof sends);
    sends.struct_size = sizeof sends;
    sends.bootstrap_ms = bootstrap_ms;
    memset(&receives, 0, sizeof receives);
    receives.struct_size = sizeof receives;
    receives.bootstrap_ms = bootstrap_ms;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = KVF_CHUNK_LAST;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    memcpy(it->from + (size_t)page * PAIR_PAGE_BYTES, &room_id, sizeof room_id);
    status = kvf_room_open_sender(it->prefill, room_id, &sends, sender);
    if (status == KVF_OK)
        status = kvf_room_open_receiver(it->decode, kvf_engine_address(it->prefill), room_id, &receives, receiver);
    if (status == KVF_OK)
        status = kvf_room_accept(it->decode, *receiver, &list, 1, sizeof list);
    if (status == KVF_OK)
        status = kvf_room_send(it->prefill, *sender, &chunk);
    return status;
}

int pair_end(kvf_engine *engine, kvf_room room) {
    const uint64_t until = now_ms() + LONG_MS;
    kvf_room_status ended;
    int status;
    memset(&ended, 0, sizeof ended);
    ended.struct_size = sizeof ended;
    MUST(kvf_room_wait(engine, room, LONG_MS, &ended));
    while ((status = kvf_room_close(engine, room)) == KVF_ERR_BUSY) {
        REQUIRE(now_ms() < until, "a room stays busy: %s", kvf_last_error());
        pause_ms(1);
    }
    must(status, "kvf_room_close");
    return ended.code;
}

void pair_serve(const pair *it, uint64_t room_id) {
    kvf_room sender, receiver;
    const size_t at = (size_t)(room_id % PAIR_PAGES) * PAIR_PAGE_BYTES;
    MUST(pair_room(it, room_id, LONG_MS, &sender, &receiver));
    const int received = pair_end(it->decode, receiver), sent = pair_end(it->prefill, sender);
    REQUIRE(received == KVF_OK && sent == KVF_OK, "room %llu ended with %s at decode and %s at prefill",
            (unsigned long long)room_id, kvf_status_name(received), kvf_status_name(sent));
    REQUIRE(memcmp(it->to + at, &room_id, sizeof room_id) == 0, "room %llu is Success and its page is not there",
            (unsigned long long)room_id);
}
