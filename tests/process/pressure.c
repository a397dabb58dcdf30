/* Processes that run out of descriptors or of memory. Each case is a process of its own, whose limits it lowers. */
#define _GNU_SOURCE
#include "pair.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the ones above it first. */
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_MEMORY_LIMIT = 0 }; /* a sanitizer takes address space without end */
#else
enum { HAS_MEMORY_LIMIT = 1 };
#endif

#if defined(SANITIZER_NEEDS_DESCRIPTORS)
enum { HAS_DESCRIPTOR_LIMIT = 0 };
#else
enum { HAS_DESCRIPTOR_LIMIT = 1 };
#endif

/* Runs it in a child, which ends well. */
static void in_a_child(void (*what)(int), int argument) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        call_me("child");
        keep_log();
        what(argument);
        exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("with %d the child died of %s", argument, strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        fail_msg("with %d the child ended with %d", argument, WEXITSTATUS(status));
}

static struct rlimit lower(int resource, rlim_t to) {
    struct rlimit before, lowered;
    REQUIRE(getrlimit(resource, &before) == 0, "getrlimit");
    lowered = before;
    lowered.rlim_cur = to;
    REQUIRE(setrlimit(resource, &lowered) == 0, "setrlimit");
    return before;
}

static void raise_again(int resource, const struct rlimit *before) {
    REQUIRE(setrlimit(resource, before) == 0, "setrlimit");
}

/* ---------------------------------------------------------------------------------------------------- descriptors */

/* What is below the first free one, and so many more. */
static struct rlimit leave_descriptors(int left) {
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(next >= 0, "/dev/null");
    close(next);
    return lower(RLIMIT_NOFILE, (rlim_t)(next + left));
}

/* The calls that need a descriptor say so; the others work. */
static void call_everything(int unused) {
    (void)unused;
    pair it;
    kvf_engine *engine = NULL;
    kvf_engine_config config;
    kvf_bootstrap *server = NULL;
    kvf_room sender, receiver, fenced;
    kvf_event events[16];
    kvf_counter counters[64];
    kvf_chunk chunk;
    void *memory = NULL;
    pair_open(&it, 0);
    pair_serve(&it, 1);
    const int fence = eventfd(0, EFD_CLOEXEC);
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.role = KVF_ROLE_PREFILL;
    MUST(kvf_room_open_sender(it.prefill, 9, NULL, &fenced));
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.fence_kind = KVF_FENCE_EVENTFD;
    chunk.fence_fd = fence;
    const struct rlimit before = leave_descriptors(0);
    const struct {
        const char *what;
        int status, wanted;
    } refused[] = {
        {"kvf_engine_create", kvf_engine_create(&config, &engine), KVF_ERR_SYSTEM},
        {"kvf_bootstrap_start", kvf_bootstrap_start(NULL, &server), KVF_ERR_SYSTEM},
        {"kvf_engine_load_transport", kvf_engine_load_transport(it.prefill, "fault+shm", NULL), KVF_ERR_NO_TRANSPORT},
        {"kvf_memory_alloc", kvf_memory_alloc(it.decode, 4096, &memory), KVF_ERR_SYSTEM},
        {"kvf_room_send", kvf_room_send(it.prefill, fenced, &chunk), KVF_ERR_SYSTEM},
    };
    const char *const last = kvf_last_error();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        REQUIRE(refused[i].status == refused[i].wanted, "%s is %s: ...%s", refused[i].what,
                kvf_status_name(refused[i].status), last);
    /* The engines know each other: their rooms need nothing more. */
    for (uint64_t id = 10; id < 20; id++)
        pair_serve(&it, id);
    MUST(pair_room(&it, 20, LONG_MS, &sender, &receiver));
    MUST(kvf_room_abort(it.decode, receiver, "no more"));
    (void)pair_end(it.decode, receiver);
    (void)pair_end(it.prefill, sender);
    REQUIRE(kvf_engine_events(it.decode, events, 16, sizeof *events, 0) >= 0, "%s", kvf_last_error());
    REQUIRE(kvf_engine_counters(it.decode, counters, 64, sizeof *counters) > 0, "%s", kvf_last_error());
    REQUIRE(kvf_plugin_list(NULL, 0, sizeof(kvf_plugin_info)) >= 0, "%s", kvf_last_error());
    raise_again(RLIMIT_NOFILE, &before);
    MUST(kvf_room_send(it.prefill, fenced, &chunk));
    MUST(kvf_room_abort(it.prefill, fenced, NULL));
    (void)pair_end(it.prefill, fenced);
    MUST(kvf_memory_alloc(it.decode, 4096, &memory));
    MUST(kvf_engine_create(&config, &engine));
    MUST(kvf_engine_destroy(engine, 0));
    pair_serve(&it, 30);
    pair_close(&it);
}

/* Engines that find each other with so few descriptors left: both rooms end, and later ones succeed. */
static void find_each_other(int left) {
    pair it;
    kvf_room sender, receiver;
    pair_open(&it, 0);
    const struct rlimit before = leave_descriptors(left);
    MUST(pair_room(&it, 1, 300, &sender, &receiver));
    const int received = pair_end(it.decode, receiver), sent = pair_end(it.prefill, sender);
    REQUIRE((received == KVF_OK) == (sent == KVF_OK), "decode ended with %s, prefill with %s",
            kvf_status_name(received), kvf_status_name(sent));
    raise_again(RLIMIT_NOFILE, &before);
    printf("%2d descriptors left: %s, %s\n", left, kvf_status_name(received), kvf_status_name(sent));
    pair_serve(&it, 2);
    pair_close(&it);
}

static void without_descriptors_calls_say_so_and_the_rest_works(void **state) {
    (void)state;
    if (!HAS_DESCRIPTOR_LIMIT)
        skip();
    in_a_child(call_everything, 0);
}

static void engines_that_could_not_find_each_other_for_want_of_descriptors_do_so_later(void **state) {
    (void)state;
    if (!HAS_DESCRIPTOR_LIMIT)
        skip();
    for (int left = 0; left < 16; left++)
        in_a_child(find_each_other, left);
}

/* --------------------------------------------------------------------------------------------------------- memory */

static size_t address_space(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%lu", &pages) == 1, "/proc/self/statm can not be read");
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int is_clear(int status) {
    return status == KVF_OK || status == KVF_ERR_NO_MEMORY || status == KVF_ERR_AGAIN || status == KVF_ERR_FULL;
}

/* Rooms are opened until something is refused, or there is none left to open; then all is let go again. */
static void fill_memory(int left_kib) {
    enum { ROOMS = 4000 };
    static kvf_room senders[ROOMS], receivers[ROOMS];
    static uint32_t pages[PAIR_PAGES];
    int opened = 0, status = KVF_OK;
    pair it;
    pair_open(&it, 0);
    pair_serve(&it, 1);
    for (uint32_t i = 0; i < PAIR_PAGES; i++)
        pages[i] = i;
    const struct rlimit before = lower(RLIMIT_AS, address_space() + ((size_t)left_kib << 10));
    while (opened < ROOMS && status == KVF_OK) {
        const kvf_index_list list = {0, PAIR_PAGES, pages};
        const uint64_t id = 100 + (uint64_t)opened;
        status = kvf_room_open_sender(it.prefill, id, NULL, &senders[opened]);
        if (status != KVF_OK)
            break;
        status = kvf_room_open_receiver(it.decode, kvf_engine_address(it.prefill), id, NULL, &receivers[opened]);
        if (status != KVF_OK) {
            MUST(kvf_room_close_deferred(it.prefill, senders[opened]));
            break;
        }
        opened++;
        status = kvf_room_accept(it.decode, receivers[opened - 1], &list, 1, sizeof list);
        if (status == KVF_ERR_STATE) /* it has failed already */
            status = KVF_OK;
    }
    REQUIRE(is_clear(status), "with %d KiB: %s: %s", left_kib, kvf_status_name(status), kvf_last_error());
    raise_again(RLIMIT_AS, &before);
    for (int i = 0; i < opened; i++) {
        MUST(kvf_room_close_deferred(it.prefill, senders[i]));
        MUST(kvf_room_close_deferred(it.decode, receivers[i]));
    }
    printf("%5d KiB left: %d rooms, then %s\n", left_kib, opened, kvf_status_name(status));
    pair_serve(&it, 2);
    pair_close(&it);
}

static void without_memory_calls_say_so_and_the_engine_goes_on(void **state) {
    (void)state;
    if (!HAS_MEMORY_LIMIT)
        skip();
    for (int left_kib = 256; left_kib <= 32768; left_kib *= 2)
        in_a_child(fill_memory, left_kib);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_descriptors_calls_say_so_and_the_rest_works),
        cmocka_unit_test(engines_that_could_not_find_each_other_for_want_of_descriptors_do_so_later),
        cmocka_unit_test(without_memory_calls_say_so_and_the_engine_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
