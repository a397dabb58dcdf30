/* Nothing grows with the number of rooms served: very many rooms of all kinds go through one pair of engines, and at
 * the end the process has the memory that it had after the first ten thousand, and every gauge is zero. */
#define _GNU_SOURCE
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MEMORY_TELLS = 0 }; /* it is the sanitizer's */
#else
enum { MEMORY_TELLS = 1 };
#endif

enum {
    BATCH = 512, /* rooms at one time */
    ROOM_PAGES = 2,
    PAGES = BATCH * ROOM_PAGES,
    PAGE_BYTES = 64,
    WARM_ROOMS = 10000,
    MOST_GROWTH = 2 << 20,
    SOON_MS = 5 /* deadlines that are to pass */
};

/* How a room goes, and how it ends on each side. */
#define KINDS(X)                                                                  \
    X(SERVED, 40, KVF_OK, KVF_OK)                                                 \
    X(ABORTED_BY_SENDER, 8, KVF_ERR_ABORTED, KVF_ERR_PEER_ABORTED)                \
    X(ABORTED_BY_RECEIVER, 8, KVF_ERR_PEER_ABORTED, KVF_ERR_ABORTED)              \
    X(ABORTED_BEFORE_THE_RECEIVER_CAME, 6, KVF_ERR_ABORTED, KVF_ERR_PEER_ABORTED) \
    X(WITHOUT_RECEIVER, 6, KVF_ERR_BOOTSTRAP, NO_ROOM)                            \
    X(WITHOUT_SENDER, 6, NO_ROOM, KVF_ERR_UNCLAIMED)                              \
    X(NOWHERE, 4, NO_ROOM, KVF_ERR_BOOTSTRAP)                                     \
    X(NEVER_ACCEPTED, 4, KVF_ERR_WAIT_DEADLINE, KVF_ERR_WAIT_DEADLINE)            \
    X(NEVER_SENT, 4, KVF_ERR_WAIT_DEADLINE, KVF_ERR_WAIT_DEADLINE)                \
    X(NEVER_FINISHED, 4, KVF_ERR_TRANSFER_DEADLINE, KVF_ERR_TRANSFER_DEADLINE)    \
    X(TOO_MANY_PAGES, 4, KVF_ERR_LENGTH, KVF_ERR_LENGTH)                          \
    X(TOO_FEW_PAGES, 4, KVF_ERR_LENGTH, KVF_ERR_LENGTH)                           \
    X(GIVEN_UP, 2, NO_ROOM, NO_ROOM)

enum { NO_ROOM = 1 };

typedef enum kind {
#define KIND_ENUM(name, weight, sender, receiver) name,
    KINDS(KIND_ENUM)
#undef KIND_ENUM
} kind;

static const struct {
    const char *name;
    uint32_t weight;
    int sender, receiver;
} kinds[] = {
#define KIND_ENTRY(name, weight, sender, receiver) {#name, weight, sender, receiver},
    KINDS(KIND_ENTRY)
#undef KIND_ENTRY
};

typedef struct room {
    kind kind;
    uint64_t id;
    kvf_room sender, receiver;
    uint32_t pages[ROOM_PAGES + 1]; /* one more than is offered */
} room;

static kvf_engine *prefill, *decode;
static unsigned char *from, *to;
static room rooms[BATCH];
static dice chance;
static uint64_t ends[sizeof kinds / sizeof *kinds], too_late;

/* An engine keeps up to a number how rooms ended whose receivers never came. The first rooms reach it. */
static kind roll_kind(uint64_t id) {
    uint32_t sum = 0, at;
    if (id < WARM_ROOMS && roll_below(&chance, 16) != 0)
        return WITHOUT_RECEIVER;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        sum += kinds[i].weight;
    at = roll_below(&chance, sum);
    for (size_t i = 0;; at -= kinds[i++].weight)
        if (at < kinds[i].weight)
            return (kind)i;
}

/* ------------------------------------------------------------------------------------------------ a room's way */

static void open_sender(room *it) {
    kvf_sender_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.bootstrap_ms = it->kind == WITHOUT_RECEIVER ? SOON_MS : LONG_MS;
    options.waiting_ms = it->kind == NEVER_SENT ? SOON_MS : LONG_MS;
    options.transfer_ms = it->kind == NEVER_FINISHED ? SOON_MS : LONG_MS;
    MUST(kvf_room_open_sender(prefill, it->id, &options, &it->sender));
}

static void open_receiver(room *it) {
    kvf_receiver_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.bootstrap_ms = it->kind == NOWHERE ? SOON_MS : LONG_MS;
    options.waiting_ms = it->kind == NEVER_ACCEPTED ? SOON_MS : LONG_MS;
    options.transfer_ms = LONG_MS;
    MUST(kvf_room_open_receiver(decode, it->kind == NOWHERE ? "unix:///nowhere" : kvf_engine_address(prefill), it->id,
                                &options, &it->receiver));
    if (it->kind != NEVER_ACCEPTED) {
        const kvf_index_list list = {0, ROOM_PAGES, it->pages};
        MUST(kvf_room_accept(decode, it->receiver, &list, 1, sizeof list));
    }
}

static void send_pages(const room *it, uint32_t count, uint32_t flags) {
    const kvf_index_list list = {0, count, it->pages};
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = flags;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    MUST(kvf_room_send(prefill, it->sender, &chunk));
}

static void end_early(room *it) {
    if (it->kind == ABORTED_BY_SENDER) {
        MUST(kvf_room_abort(prefill, it->sender, "the sender has changed its mind"));
    } else if (it->kind == ABORTED_BY_RECEIVER) {
        MUST(kvf_room_abort(decode, it->receiver, "the receiver has changed its mind"));
    } else if (it->kind == GIVEN_UP) {
        MUST(kvf_room_close_deferred(prefill, it->sender));
        MUST(kvf_room_close_deferred(decode, it->receiver));
    }
}

static void close_room(kvf_engine *engine, kvf_room handle) {
    const uint64_t until = now_ms() + LONG_MS;
    int status;
    while ((status = kvf_room_close(engine, handle)) == KVF_ERR_BUSY) {
        REQUIRE(now_ms() < until, "a room stays busy: %s", kvf_last_error());
        pause_ms(1);
    }
    must(status, "kvf_room_close");
}

static void begin(room *it) {
    memcpy(from + (size_t)it->pages[0] * PAGE_BYTES, &it->id, sizeof it->id);
    if (it->kind == ABORTED_BEFORE_THE_RECEIVER_CAME) {
        open_sender(it);
        MUST(kvf_room_abort(prefill, it->sender, NULL));
        MUST(kvf_room_wait(prefill, it->sender, LONG_MS, NULL));
        close_room(prefill, it->sender);
        open_receiver(it);
        return;
    }
    const int receiver_first = roll_below(&chance, 2) == 0;
    if (kinds[it->kind].receiver != NO_ROOM && receiver_first)
        open_receiver(it);
    if (kinds[it->kind].sender != NO_ROOM || it->kind == GIVEN_UP)
        open_sender(it);
    if ((kinds[it->kind].receiver != NO_ROOM && !receiver_first) || it->kind == GIVEN_UP)
        open_receiver(it);
    if (it->kind == SERVED || (it->kind == GIVEN_UP && receiver_first)) {
        if (roll_below(&chance, 2) == 0)
            send_pages(it, 0, 0);
        send_pages(it, ROOM_PAGES, KVF_CHUNK_LAST);
    } else if (it->kind == TOO_MANY_PAGES || it->kind == TOO_FEW_PAGES) {
        send_pages(it, it->kind == TOO_MANY_PAGES ? ROOM_PAGES + 1 : ROOM_PAGES - 1, KVF_CHUNK_LAST);
    } else if (it->kind == NEVER_FINISHED || it->kind == ABORTED_BY_SENDER || it->kind == ABORTED_BY_RECEIVER) {
        if (it->kind == NEVER_FINISHED || receiver_first)
            send_pages(it, ROOM_PAGES, 0);
    }
    if (roll_below(&chance, 2) == 0 || it->kind == GIVEN_UP)
        end_early(it);
}

static void expect_end(kvf_engine *engine, const room *it, kvf_room handle, int code) {
    kvf_room_status status;
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    if (kvf_room_wait(engine, handle, LONG_MS, &status) == KVF_ERR_TIMEOUT)
        die("room %llu, %s, did not end on %s: state %u", (unsigned long long)it->id, kinds[it->kind].name,
            engine == prefill ? "prefill" : "decode", status.state);
    if (status.code != code || (status.state == KVF_STATE_SUCCESS) != (code == KVF_OK))
        die("room %llu, %s, ended on %s with %s: %s", (unsigned long long)it->id, kinds[it->kind].name,
            engine == prefill ? "prefill" : "decode", kvf_status_name(status.code),
            room_report(engine, handle).message);
    close_room(engine, handle);
}

/* The receiver came first and its sender so late that nobody could know of it any more: both end all the same. */
static int came_too_late(room *it) {
    kvf_room_status status;
    if (kinds[it->kind].receiver == NO_ROOM || it->kind == WITHOUT_SENDER)
        return 0;
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    (void)kvf_room_wait(decode, it->receiver, LONG_MS, &status);
    if (status.code != KVF_ERR_UNCLAIMED)
        return 0;
    expect_end(decode, it, it->receiver, KVF_ERR_UNCLAIMED);
    if (it->kind != ABORTED_BEFORE_THE_RECEIVER_CAME) {
        MUST(kvf_room_abort(prefill, it->sender, NULL));
        expect_end(prefill, it, it->sender, KVF_ERR_ABORTED);
    }
    too_late++;
    return 1;
}

static void finish(room *it) {
    if (came_too_late(it))
        return;
    if (kinds[it->kind].receiver != NO_ROOM)
        expect_end(decode, it, it->receiver, kinds[it->kind].receiver);
    if (it->kind == SERVED)
        REQUIRE(memcmp(to + (size_t)it->pages[0] * PAGE_BYTES, &it->id, sizeof it->id) == 0,
                "room %llu is Success and its page is not there", (unsigned long long)it->id);
    if (kinds[it->kind].sender != NO_ROOM && it->kind != ABORTED_BEFORE_THE_RECEIVER_CAME)
        expect_end(prefill, it, it->sender, kinds[it->kind].sender);
    ends[it->kind]++;
}

static void read_events(kvf_engine *engine) {
    kvf_event events[64];
    int count;
    while ((count = kvf_engine_events(engine, events, 64, sizeof *events, 0)) > 0) {
    }
    REQUIRE(count == 0, "kvf_engine_events is %s", kvf_status_name(count));
}

static void serve_batch(uint64_t first) {
    for (uint32_t i = 0; i < BATCH; i++) {
        room *it = &rooms[i];
        it->id = first + i;
        it->kind = roll_kind(it->id);
        for (uint32_t p = 0; p <= ROOM_PAGES; p++)
            it->pages[p] = (i * ROOM_PAGES + p) % PAGES;
        begin(it);
    }
    for (uint32_t i = 0; i < BATCH; i++)
        if (rooms[i].kind == ABORTED_BY_SENDER || rooms[i].kind == ABORTED_BY_RECEIVER)
            end_early(&rooms[i]);
    for (uint32_t i = 0; i < BATCH; i++)
        finish(&rooms[i]);
    if (roll_below(&chance, 2) == 0) {
        read_events(prefill);
        read_events(decode);
    }
}

/* -------------------------------------------------------------------------------------------------------- engines */

static kvf_engine *open_engine(uint32_t role, unsigned char **memory) {
    kvf_engine_config config;
    kvf_tensor tensor;
    kvf_engine *engine = NULL;
    void *allocated = NULL;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.role = role;
    config.shards = 2;
    config.max_rooms = 4 * BATCH;
    config.waiting_ms = SOON_MS; /* so long offers are kept that nobody claims */
    MUST(kvf_engine_create(&config, &engine));
    MUST(kvf_engine_load_transport(engine, "shm", NULL));
    MUST(kvf_memory_alloc(engine, PAGES * PAGE_BYTES, &allocated));
    memset(&tensor, 0, sizeof tensor);
    tensor.base = *memory = allocated;
    tensor.page_count = PAGES;
    tensor.page_bytes = PAGE_BYTES;
    MUST(kvf_engine_register(engine, &tensor, 1, sizeof tensor));
    return engine;
}

static long resident_bytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%*d %ld", &pages) == 1, "/proc/self/statm can not be read");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void expect_only_the_connection(kvf_engine *engine) {
    static const char *const gauges[] = {"open_rooms",     "open_handles", "open_operations",
                                         "open_unclaimed", "open_seeks",   "open_settles"};
    const uint64_t until = now_ms() + LONG_MS;
    for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
        while (counter_of(engine, gauges[i]) != 0) {
            REQUIRE(now_ms() < until, "%s stays at %llu", gauges[i], (unsigned long long)counter_of(engine, gauges[i]));
            pause_ms(1);
        }
}

int main(int count, char **arguments) {
    uint64_t wanted = 200000, served = 0, seed = mix(now_ms(), (uint64_t)getpid()) % 1000000;
    const uint64_t began = now_ms();
    long warm = 0, grown = 0;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--long") == 0)
            wanted = 2000000;
        else if (strcmp(arguments[i], "--rooms") == 0 && i + 1 < count)
            wanted = strtoull(arguments[++i], NULL, 10);
        else if (strcmp(arguments[i], "--seed") == 0 && i + 1 < count)
            seed = strtoull(arguments[++i], NULL, 10);
        else
            return fputs("usage: process_growth [--long | --rooms N] [--seed S]\n", stderr), 2;
    }
    printf("seed %llu, %llu rooms\n", (unsigned long long)seed, (unsigned long long)wanted);
    chance.state = seed;
    keep_log();
    prefill = open_engine(KVF_ROLE_PREFILL, &from);
    decode = open_engine(KVF_ROLE_DECODE, &to);
    for (; served < wanted; served += BATCH) {
        serve_batch(served + 1);
        if (warm == 0 && served >= WARM_ROOMS)
            warm = resident_bytes();
    }
    expect_only_the_connection(prefill);
    expect_only_the_connection(decode);
    grown = resident_bytes() - warm;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        printf("%10llu %s\n", (unsigned long long)ends[i], kinds[i].name);
    printf("%10llu came too late\n", (unsigned long long)too_late);
    printf("%llu rooms, %ld KiB after the first %d and %ld KiB more at the end, %.1f s\n", (unsigned long long)served,
           warm >> 10, (int)WARM_ROOMS, grown >> 10, (double)(now_ms() - began) / 1000);
    if (MEMORY_TELLS && warm != 0)
        REQUIRE(grown <= MOST_GROWTH, "the process has grown by %ld KiB", grown >> 10);
    MUST(kvf_engine_destroy(decode, LONG_MS));
    await_no_gauge(prefill);
    MUST(kvf_engine_destroy(prefill, LONG_MS));
    return 0;
}
