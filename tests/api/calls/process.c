/* What an engine has to bear: a fork of its process, strangers at its port, and many threads at once. */
#define _GNU_SOURCE
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve(const pair *it, uint64_t room_id, uint32_t from, uint32_t to) {
    kvf_room sender, receiver;
    open_rooms(it, room_id, &sender, &receiver);
    EXPECT_OK(accept_pages(it->decode, receiver, &to, 1));
    EXPECT_OK(send_pages(it->prefill, sender, &from, 1, KVF_CHUNK_LAST));
    EXPECT_END(it->decode, receiver, KVF_OK);
    EXPECT_END(it->prefill, sender, KVF_OK);
    expect_arrived(it, &from, &to, 1);
    EXPECT_OK(kvf_room_close(it->decode, receiver));
    EXPECT_OK(kvf_room_close(it->prefill, sender));
}

/* ----------------------------------------------------------------------------------------------------------- fork */

/* The number of the first check in the child that failed, 0 for none. */
static int in_the_child(kvf_engine *engine, kvf_bootstrap *server, kvf_room room) {
    kvf_room opened;
    kvf_room_status status;
    kvf_report report;
    kvf_event event;
    kvf_counter counter;
    kvf_tensor tensor;
    void *memory;
    uint32_t state;
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    memset(&tensor, 0, sizeof tensor);
    const int results[] = {
        kvf_room_poll(engine, room, &status),
        kvf_room_poll_many(engine, &room, &state, 1),
        kvf_room_wait(engine, room, 0, &status),
        kvf_room_report(engine, room, &report),
        kvf_room_abort(engine, room, NULL),
        kvf_room_close(engine, room),
        kvf_room_close_deferred(engine, room),
        kvf_room_open_sender(engine, 8, NULL, &opened),
        kvf_engine_events(engine, &event, 1, sizeof event, 0),
        kvf_engine_event_fd(engine),
        kvf_engine_counters(engine, &counter, 1, sizeof counter),
        kvf_engine_register(engine, &tensor, 1, sizeof tensor),
        kvf_engine_load_transport(engine, "shm", NULL),
        kvf_engine_unload_transport(engine, "shm", 0),
        kvf_memory_alloc(engine, 1, &memory),
        kvf_memory_free(engine, NULL),
    };
    const int count = (int)(sizeof results / sizeof *results);
    for (int i = 0; i < count; i++)
        if (results[i] != KVF_ERR_FORKED)
            return i + 1;
    if (strstr(kvf_last_error(), "before fork()") == NULL)
        return count + 1;
    if (strcmp(kvf_engine_address(engine), "") != 0 || strcmp(kvf_bootstrap_address(server), "") != 0)
        return count + 2;
    if (strcmp(kvf_status_name(KVF_ERR_FORKED), "KVF_ERR_FORKED") != 0)
        return count + 3;
    if (kvf_engine_destroy(engine, LONG_MS) != KVF_OK)
        return count + 4;
    if (kvf_bootstrap_stop(server) != KVF_OK)
        return count + 5;
    return 0;
}

static void a_child_may_only_destroy_and_its_parent_goes_on(void **state) {
    (void)state;
    pair it;
    kvf_room sender;
    kvf_bootstrap *server = NULL;
    pair_open(&it, NULL, NULL);
    EXPECT_OK(kvf_bootstrap_start(NULL, &server));
    EXPECT_OK(kvf_room_open_sender(it.prefill, 7, NULL, &sender));
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        _exit(in_the_child(it.prefill, server, sender));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    EXPECT_OK(kvf_room_abort(it.prefill, sender, NULL));
    close_room(it.prefill, sender);
    serve(&it, 8, 1, 2);
    EXPECT_OK(kvf_bootstrap_stop(server));
    pair_close(&it);
}

static int is_socket(int fd) {
    struct stat file;
    return fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode);
}

static int sockets(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += is_socket(fd);
    return count;
}

/* Or else the address stays taken, and peers do not see the parent die. */
static void a_child_lets_go_of_the_address_and_of_connections(void **state) {
    (void)state;
    pair it;
    int held[2];
    char address[64];
    char byte = 0;
    pair_open(&it, NULL, NULL);
    serve(&it, 7, 1, 2); /* they are connected */
    snprintf(address, sizeof address, "%s", kvf_engine_address(it.prefill));
    assert_int_equal(pipe(held), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int before = sockets();
        if (kvf_engine_destroy(it.prefill, 0) != KVF_OK || before - sockets() != 2)
            _exit(1);
        if (kvf_engine_destroy(it.decode, 0) != KVF_OK || before - sockets() != 3)
            _exit(2);
        close(held[1]);
        _exit(read(held[0], &byte, 1) == 0 ? 0 : 3); /* until the parent says so */
    }
    close(held[0]);
    serve(&it, 8, 1, 2); /* the parent has everything still */
    pair_close(&it);
    kvf_engine_config config;
    kvf_engine *engine = NULL;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.role = KVF_ROLE_PREFILL;
    config.listen = address;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_OK(kvf_engine_destroy(engine, 0));
    close(held[1]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int is_inheritable(int fd) {
    const int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

static void every_descriptor_is_close_on_exec(void **state) {
    (void)state;
    pair it;
    kvf_bootstrap *server = NULL;
    int before[256];
    for (int fd = 0; fd < 256; fd++)
        before[fd] = is_inheritable(fd);
    pair_open(&it, NULL, NULL);
    EXPECT_OK(kvf_bootstrap_start(NULL, &server));
    serve(&it, 7, 1, 2);
    for (int fd = 0; fd < 256; fd++)
        if (is_inheritable(fd) && !before[fd])
            fail_msg("descriptor %d would be inherited", fd);
    EXPECT_OK(kvf_bootstrap_stop(server));
    pair_close(&it);
}

/* ------------------------------------------------------------------------------------------------------ strangers */

static int dial(kvf_engine *engine) {
    const struct timeval patience = {LONG_MS / 1000, 0};
    struct sockaddr_in address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)atoi(strrchr(kvf_engine_address(engine), ':') + 1));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Reads until the engine has closed the connection. */
static void expect_closed(int fd) {
    char buffer[4096];
    ssize_t got;
    while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0) {
    }
    if (got < 0)
        assert_int_not_equal(errno, EAGAIN);
    close(fd);
}

static void strangers_cost_their_own_connection_only_and_are_counted(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
    } nonsense[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27},
        {"\xff\xff\xff\xff", 4},
        {"\x00\x00\x00\x00", 4},
        {"\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20},
        {"\x10\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20},
        {"\x00\x00\x00\x10\x04\x00\x00\x00\xfc\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00", 20},
    };
    enum { KINDS = sizeof nonsense / sizeof *nonsense };
    pair it;
    kvf_room sender, receiver;
    const uint32_t page = 5;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, &page, 1));
    await(it.prefill, sender, KVF_STATE_WAITING);
    for (size_t i = 0; i < KINDS; i++) {
        const int fd = dial(it.prefill);
        assert_int_equal(send(fd, nonsense[i].bytes, nonsense[i].length, MSG_NOSIGNAL), (ssize_t)nonsense[i].length);
        shutdown(fd, SHUT_WR);
        expect_closed(fd);
    }
    /* One that says nothing and goes, and one that goes in the middle of a frame. */
    close(dial(it.prefill));
    const int half = dial(it.prefill);
    assert_int_equal(send(half, "\x40\x00", 2, MSG_NOSIGNAL), 2);
    close(half);

    EXPECT_OK(send_pages(it.prefill, sender, &page, 1, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    expect_arrived(&it, &page, &page, 1);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    await_counter(it.prefill, "open_connections", 1);
    assert_int_equal(counter_of(it.prefill, "connections_accepted"), 1 + KINDS + 2);
    assert_in_range(counter_of(it.prefill, "messages_malformed"), 1, KINDS);
    pair_close(&it);
}

/* -------------------------------------------------------------------------------------------------------- threads */

enum { THREADS = 8, ROUNDS = 60 };

typedef struct caller {
    const pair *it;
    uint32_t number;
    int failed; /* the first status that was not expected */
} caller;

static int try_again(int status) {
    if (status == KVF_ERR_AGAIN)
        sched_yield();
    return status == KVF_ERR_AGAIN;
}

#define CHECK(call)                          \
    do {                                     \
        while (try_again(status = (call))) { \
        }                                    \
        if (status != KVF_OK)                \
            return status;                   \
    } while (0)

/* A room on pages of the thread's own; every third is given up instead. */
static int one_room(const pair *it, uint32_t thread, uint32_t round) {
    const uint64_t id = round % 4 * THREADS + thread;
    const uint32_t from = thread * 8 + round % 8, to = thread * 8 + (round + 3) % 8;
    kvf_room sender, receiver;
    kvf_room_status polled;
    int status;
    memset(&polled, 0, sizeof polled);
    polled.struct_size = sizeof polled;
    CHECK(kvf_room_open_receiver(it->decode, kvf_engine_address(it->prefill), id, NULL, &receiver));
    CHECK(kvf_room_open_sender(it->prefill, id, NULL, &sender));
    CHECK(accept_pages(it->decode, receiver, &to, 1));
    if (round % 3 == 2) {
        CHECK(
            kvf_room_abort(thread % 2 != 0 ? it->prefill : it->decode, thread % 2 != 0 ? sender : receiver, "no more"));
        CHECK(kvf_room_wait(it->prefill, sender, LONG_MS, NULL));
        CHECK(kvf_room_wait(it->decode, receiver, LONG_MS, NULL));
        do
            CHECK(kvf_room_poll(it->prefill, sender, &polled));
        while ((polled.flags & KVF_ROOM_QUIESCED) == 0);
        CHECK(kvf_room_close(it->prefill, sender));
        do
            CHECK(kvf_room_poll(it->decode, receiver, &polled));
        while ((polled.flags & KVF_ROOM_QUIESCED) == 0);
        return kvf_room_close(it->decode, receiver);
    }
    CHECK(send_pages(it->prefill, sender, &from, 1, KVF_CHUNK_LAST));
    CHECK(kvf_room_wait(it->decode, receiver, LONG_MS, &polled));
    if (polled.state != KVF_STATE_SUCCESS)
        return polled.code;
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        if (memcmp(page_at(it->to, layer, to), page_at(it->from, layer, from), PAGE_BYTES) != 0)
            return KVF_ERR_INTERNAL;
    CHECK(kvf_room_wait(it->prefill, sender, LONG_MS, &polled));
    CHECK(kvf_room_close(it->prefill, sender));
    return kvf_room_close(it->decode, receiver);
}

static void *call(void *argument) {
    caller *it = argument;
    for (uint32_t round = 0; round < ROUNDS && it->failed == KVF_OK; round++)
        it->failed = one_room(it->it, it->number, round);
    return NULL;
}

static void any_thread_may_call_anything_at_any_time(void **state) {
    (void)state;
    pair it;
    pthread_t threads[THREADS];
    caller callers[THREADS];
    pair_open(&it, NULL, NULL);
    for (uint32_t i = 0; i < THREADS; i++) {
        callers[i].it = &it;
        callers[i].number = i;
        callers[i].failed = KVF_OK;
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int looks = 0; looks < 100; looks++) {
        kvf_event events[16];
        assert_in_range(kvf_engine_events(it.decode, events, 16, sizeof *events, 1), 0, 16);
        (void)counter_of(it.prefill, "bytes");
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (callers[i].failed != KVF_OK)
            fail_msg("thread %u: %s", i, kvf_status_name(callers[i].failed));
    }
    assert_int_equal(counter_of(it.prefill, "rooms_opened"), THREADS * ROUNDS);
    pair_close(&it);
}

typedef struct flood {
    kvf_engine *engine;
    kvf_room room;
    int refused;
} flood;

static void *send_until_full(void *argument) {
    flood *it = argument;
    for (int i = 0; i < 1000000 && __atomic_load_n(&it->refused, __ATOMIC_RELAXED) == 0; i++) {
        const int status = send_pages(it->engine, it->room, NULL, 0, 0);
        if (status != KVF_OK)
            __atomic_store_n(&it->refused, status, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void a_full_inbox_takes_nothing_and_says_again(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    unsigned char *memory;
    pthread_t threads[4];
    flood it;
    config.inbox = 1;
    memset(&it, 0, sizeof it);
    it.engine = engine_open(&config, &memory);
    EXPECT_OK(kvf_room_open_sender(it.engine, 7, NULL, &it.room));
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_until_full, &it), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(it.refused, KVF_ERR_AGAIN);
    /* What is not limited gets through. */
    EXPECT_OK(kvf_room_abort(it.engine, it.room, NULL));
    close_room(it.engine, it.room);
    EXPECT_OK(kvf_engine_destroy(it.engine, LONG_MS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_may_only_destroy_and_its_parent_goes_on),
        cmocka_unit_test(a_child_lets_go_of_the_address_and_of_connections),
        cmocka_unit_test(every_descriptor_is_close_on_exec),
        cmocka_unit_test(strangers_cost_their_own_connection_only_and_are_counted),
        cmocka_unit_test(any_thread_may_call_anything_at_any_time),
        cmocka_unit_test(a_full_inbox_takes_nothing_and_says_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
