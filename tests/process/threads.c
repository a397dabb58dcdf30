/* Many threads on the same engines at once: each calls whatever it likes, on rooms of the others too; and threads that
 * wait, poll and read events while the engine on the other side is destroyed. */
#define _GNU_SOURCE
#include "pair.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above it first. */
#include <cmocka.h>

enum { THREADS = 64, IDS = 256 };

#if defined(__SANITIZE_THREAD__)
/* The dynamic linker counts under a lock of its own, which the sanitizer does not see. */
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void) {
    return "race:_dl_close_worker\n";
}
#endif

static uint32_t calls = 3000; /* of each thread */
static pair engines;
static kvf_room rooms[2][IDS]; /* as last opened, by role and id: prefill's and decode's */

/* The call returns KVF_OK, more, or one of these. */
#define ALLOW(call, ...)                                                 \
    do {                                                                 \
        static const int allowed[] = {__VA_ARGS__};                      \
        allow((call), allowed, sizeof allowed / sizeof *allowed, #call); \
    } while (0)

static void allow(int status, const int *allowed, size_t count, const char *call) {
    for (size_t i = 0; i < count; i++)
        if (status == allowed[i])
            return;
    REQUIRE(status >= 0, "%s is %s: %s", call, kvf_status_name(status), kvf_last_error());
}

static kvf_room room_of(int role, uint64_t id) {
    const kvf_room room = {__atomic_load_n(&rooms[role][id].value, __ATOMIC_ACQUIRE)};
    return room;
}

/* --------------------------------------------------------------------------------- each of the functions, at random */

static void open_one(int role, uint64_t id) {
    kvf_room room = {0};
    int status;
    if (role == 0)
        status = kvf_room_open_sender(engines.prefill, id + 1, NULL, &room);
    else
        status = kvf_room_open_receiver(engines.decode, kvf_engine_address(engines.prefill), id + 1, NULL, &room);
    ALLOW(status, KVF_ERR_EXISTS, KVF_ERR_AGAIN);
    /* Nobody can have closed it meanwhile, nor opened the id again. */
    if (status == KVF_OK)
        __atomic_store_n(&rooms[role][id].value, room.value, __ATOMIC_RELEASE);
}

static void go_on(int role, uint64_t id) {
    const uint32_t page = (uint32_t)id;
    const kvf_index_list list = {0, 1, &page};
    kvf_chunk chunk;
    if (role == 1) {
        ALLOW(kvf_room_accept(engines.decode, room_of(1, id), &list, 1, sizeof list), KVF_ERR_STATE, KVF_ERR_STALE,
              KVF_ERR_FOREIGN, KVF_ERR_AGAIN);
        return;
    }
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = KVF_CHUNK_LAST;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    ALLOW(kvf_room_send(engines.prefill, room_of(0, id), &chunk), KVF_ERR_STATE, KVF_ERR_STALE, KVF_ERR_FOREIGN,
          KVF_ERR_AFTER_LAST, KVF_ERR_AGAIN);
}

static void look_at(int role, uint64_t id, uint32_t how) {
    kvf_engine *engine = role == 0 ? engines.prefill : engines.decode;
    const kvf_room room = room_of(role, id);
    kvf_room_status status;
    kvf_report report;
    kvf_room some[16];
    uint32_t states[16];
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    switch (how % 4) {
        case 0:
            ALLOW(kvf_room_poll(engine, room, &status), KVF_ERR_STALE, KVF_ERR_FOREIGN);
            break;
        case 1:
            ALLOW(kvf_room_wait(engine, room, how % 3, &status), KVF_ERR_STALE, KVF_ERR_FOREIGN, KVF_ERR_TIMEOUT);
            break;
        case 2:
            ALLOW(kvf_room_report(engine, room, &report), KVF_ERR_STALE, KVF_ERR_FOREIGN);
            break;
        default:
            for (uint64_t i = 0; i < 16; i++)
                some[i] = room_of(role, (id + i) % IDS);
            ALLOW(kvf_room_poll_many(engine, some, states, 16), KVF_ERR_STALE);
    }
}

static void end_one(int role, uint64_t id, uint32_t how) {
    kvf_engine *engine = role == 0 ? engines.prefill : engines.decode;
    const kvf_room room = room_of(role, id);
    if (how % 8 == 0)
        ALLOW(kvf_room_abort(engine, room, "as it happens"), KVF_ERR_STALE, KVF_ERR_FOREIGN);
    else if (how % 8 == 1)
        ALLOW(kvf_room_close_deferred(engine, room), KVF_ERR_STALE, KVF_ERR_FOREIGN);
    else
        ALLOW(kvf_room_close(engine, room), KVF_ERR_STALE, KVF_ERR_FOREIGN, KVF_ERR_BUSY);
}

static void ask_engine(int role, uint32_t how) {
    kvf_engine *engine = role == 0 ? engines.prefill : engines.decode;
    kvf_event events[16];
    kvf_counter counters[64];
    kvf_config_entry entries[64];
    kvf_tensor tensor;
    void *memory = NULL;
    memset(&tensor, 0, sizeof tensor);
    tensor.base = role == 0 ? engines.from : engines.to;
    tensor.page_count = PAIR_PAGES;
    tensor.page_bytes = PAIR_PAGE_BYTES;
    switch (how % 8) {
        case 0:
            ALLOW(kvf_engine_counters(engine, counters, 64, sizeof *counters), KVF_OK);
            break;
        case 1:
            ALLOW(kvf_memory_alloc(engine, 4096, &memory), KVF_OK);
            ALLOW(kvf_memory_free(engine, memory), KVF_OK);
            break;
        case 2:
            ALLOW(kvf_engine_register(engine, &tensor, 1, sizeof tensor), KVF_ERR_DUPLICATE);
            break;
        case 3:
            ALLOW(kvf_engine_load_transport(engine, "shm", NULL), KVF_ERR_EXISTS);
            break;
        case 4:
            ALLOW(kvf_config_list(entries, 64, sizeof *entries), KVF_OK);
            break;
        case 5:
            ALLOW(kvf_engine_event_fd(engine), KVF_OK);
            break;
        default:
            ALLOW(kvf_engine_events(engine, events, 16, sizeof *events, how % 2), KVF_OK);
    }
}

/* Another engine, and a server, beside the two. */
static void come_and_go(void) {
    kvf_engine_config config;
    kvf_engine *engine = NULL;
    kvf_bootstrap *server = NULL;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.role = KVF_ROLE_BOTH;
    config.max_rooms = 16;
    MUST(kvf_engine_create(&config, &engine));
    MUST(kvf_engine_load_transport(engine, "shm", NULL));
    MUST(kvf_bootstrap_start(NULL, &server));
    ALLOW(kvf_plugin_list(NULL, 0, sizeof(kvf_plugin_info)), KVF_OK);
    MUST(kvf_engine_unload_transport(engine, "shm", LONG_MS));
    MUST(kvf_bootstrap_stop(server));
    MUST(kvf_engine_destroy(engine, LONG_MS));
}

static void *call_anything(void *argument) {
    dice chance = {(uint64_t)(uintptr_t)argument};
    for (uint32_t i = 0; i < calls; i++) {
        const int role = (int)roll_below(&chance, 2);
        const uint64_t id = roll_below(&chance, IDS);
        const uint32_t what = roll_below(&chance, 1000), how = roll_below(&chance, 1000);
        if (what < 300)
            open_one(role, id);
        else if (what < 550)
            go_on(role, id);
        else if (what < 750)
            look_at(role, id, how);
        else if (what < 950)
            end_one(role, id, how);
        else if (what < 999)
            ask_engine(role, how);
        else
            come_and_go();
    }
    return NULL;
}

static void start_threads(pthread_t *threads, void *(*what)(void *)) {
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, what, (void *)(i + 1)) == 0, "no thread");
}

static void join_threads(const pthread_t *threads) {
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void threads_call_every_function_at_once(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    pair_open(&engines, 100);
    memset(rooms, 0, sizeof rooms);
    start_threads(threads, call_anything);
    join_threads(threads);
    const uint64_t succeeded = counter_of(engines.decode, "rooms_succeeded");
    print_message("%llu rooms of decode were opened, %llu succeeded\n",
                  (unsigned long long)counter_of(engines.decode, "rooms_opened"), (unsigned long long)succeeded);
    assert_true(succeeded > 0);
    for (uint64_t id = 0; id < IDS; id++)
        for (int role = 0; role < 2; role++)
            ALLOW(kvf_room_close_deferred(role == 0 ? engines.prefill : engines.decode, room_of(role, id)),
                  KVF_ERR_STALE, KVF_ERR_FOREIGN);
    /* The two still work. */
    pair_serve(&engines, 1000);
    pair_close(&engines);
}

/* --------------------------------------------------------------------------------- a peer that goes under the threads
 */

static kvf_engine *staying;
static int staying_role, begun;

static void *watch_rooms(void *argument) {
    const uint64_t number = (uint64_t)(uintptr_t)argument - 1;
    const kvf_room room = room_of(staying_role, number);
    kvf_room_status status;
    kvf_event events[16];
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    __atomic_add_fetch(&begun, 1, __ATOMIC_RELEASE);
    if (number % 2 == 0) {
        MUST(kvf_room_wait(staying, room, LONG_MS, &status));
    } else {
        const uint64_t until = now_ms() + LONG_MS;
        do {
            REQUIRE(now_ms() < until, "room %llu does not end", (unsigned long long)number);
            status = room_status(staying, room);
            look_at(staying_role, number, (uint32_t)number);
            REQUIRE(kvf_engine_events(staying, events, 16, sizeof *events, 1) >= 0, "%s", kvf_last_error());
        } while (status.state != KVF_STATE_FAILED && status.state != KVF_STATE_SUCCESS);
    }
    REQUIRE(status.code == KVF_ERR_PEER_CLOSED, "room %llu ended with %s: %s", (unsigned long long)number,
            kvf_status_name(status.code), room_report(staying, room).message);
    return NULL;
}

/* Rooms that have found each other and have nothing to send yet. */
static void begin_rooms(void) {
    for (uint64_t id = 0; id < THREADS; id++) {
        open_one(0, id);
        open_one(1, id);
        go_on(1, id);
    }
    for (uint64_t id = 0; id < THREADS; id++) {
        const uint64_t until = now_ms() + LONG_MS;
        while (room_status(engines.prefill, room_of(0, id)).state != KVF_STATE_WAITING) {
            REQUIRE(now_ms() < until, "room %llu finds no peer", (unsigned long long)id);
            pause_ms(1);
        }
    }
}

static void a_peer_destroyed_under_threads_that_wait_poll_and_read_ends_their_rooms(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (staying_role = 0; staying_role < 2; staying_role++) {
        pair_open(&engines, 0);
        memset(rooms, 0, sizeof rooms);
        begin_rooms();
        staying = staying_role == 0 ? engines.prefill : engines.decode;
        begun = 0;
        start_threads(threads, watch_rooms);
        while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) != THREADS)
            pause_ms(1);
        MUST(kvf_engine_destroy(staying_role == 0 ? engines.decode : engines.prefill, LONG_MS));
        join_threads(threads);
        for (uint64_t id = 0; id < THREADS; id++)
            (void)pair_end(staying, room_of(staying_role, id));
        await_no_gauge(staying);
        MUST(kvf_engine_destroy(staying, LONG_MS));
    }
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_call_every_function_at_once),
        cmocka_unit_test(a_peer_destroyed_under_threads_that_wait_poll_and_read_ends_their_rooms),
    };
    if (count > 1)
        calls = (uint32_t)strtoul(arguments[1], NULL, 10);
    keep_log();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
