/* A fence that comes while lanes of other threads post. */
#define _GNU_SOURCE
#include "shm_rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 3, PART = 1 << 20, BYTES = LANES * PART, ROUNDS = 20 };

typedef struct poster {
    pthread_t thread;
    kvf_lane *lane;
    kvf_peer *peer;
    kvf_segment segment;
    int posts;           /* that were completed; read by the test while the thread runs */
    int last;            /* what ended it */
    uint64_t torn_bytes; /* of the operation that the fence cut, if one was */
} poster;

/* Posts until it is told that it may not. */
static void *post_on(void *argument) {
    poster *it = argument;
    for (;;) {
        uint32_t accepted = 0;
        it->last = shm_ops()->post(it->lane, it->peer, KVF_OP_WRITE, &it->segment, 1, 1, &accepted);
        if (it->last != KVF_OK)
            return NULL;
        kvf_completion completion = {0};
        if (accepted != 1 || shm_ops()->poll(it->lane, &completion, 1) != 1)
            abort();
        if (completion.status == KVF_OK)
            __atomic_fetch_add(&it->posts, 1, __ATOMIC_RELAXED);
        else if (completion.status == KVF_ERR_CANCELLED)
            it->torn_bytes = completion.bytes;
        else
            abort();
    }
}

static void start(poster *it, const side *ours, const shm_link *link, int index) {
    const uint64_t at = (uint64_t)index * PART;
    memset(it, 0, sizeof *it);
    it->peer = link->peer;
    it->segment = segment_of(ours, link, at, at, PART);
    expect_status(KVF_OK, shm_ops()->lane_open(ours->instance, (uint32_t)index, &it->lane));
    assert_int_equal(pthread_create(&it->thread, NULL, post_on, it), 0);
    while (__atomic_load_n(&it->posts, __ATOMIC_RELAXED) == 0)
        sched_yield();
}

static void nothing_is_written_once_fence_has_returned(memory_kind kind) {
    side ours, theirs;
    side_open(&ours, kind, BYTES, "");
    side_open(&theirs, kind, BYTES, "");
    memory_fill(ours.memory.base, BYTES, 1);
    unsigned char *expected = malloc(BYTES);
    assert_non_null(expected);
    memset(expected, 0xee, BYTES);
    for (int round = 0; round < ROUNDS; ++round) {
        shm_link link;
        poster posters[LANES];
        link_open(&link, &ours, &theirs);
        for (int i = 0; i < LANES; ++i)
            start(&posters[i], &ours, &link, i);
        /* Busy, since the peer lives; but what is ours has ended. */
        expect_status(KVF_ERR_BUSY, shm_ops()->fence(link.peer));
        memset(theirs.memory.base, 0xee, BYTES);
        for (int i = 0; i < LANES; ++i) {
            assert_int_equal(pthread_join(posters[i].thread, NULL), 0);
            assert_int_equal(posters[i].last, KVF_ERR_CANCELLED);
            assert_in_range(posters[i].torn_bytes, 0, PART);
            shm_ops()->lane_close(posters[i].lane);
        }
        assert_memory_equal(theirs.memory.base, expected, BYTES);
        link_close(&link);
    }
    free(expected);
    side_close(&theirs);
    side_close(&ours);
}

static void nothing_is_written_to_a_mapping_once_fence_has_returned(void **state) {
    (void)state;
    nothing_is_written_once_fence_has_returned(MEMORY_SEALED);
}

static void nothing_is_written_by_cma_once_fence_has_returned(void **state) {
    (void)state;
    nothing_is_written_once_fence_has_returned(MEMORY_PLAIN);
}

static void fence_stops_a_large_copy_between_its_steps(void **state) {
    (void)state;
    const memory_kind kinds[] = {MEMORY_SEALED, MEMORY_PLAIN};
    for (size_t i = 0; i < 2; ++i) {
        side ours, theirs;
        shm_link link;
        side_open(&ours, kinds[i], PAGE, "");
        side_open(&theirs, kinds[i], PAGE, "");
        link_open(&link, &ours, &theirs);
        memset(ours.memory.base, 1, PAGE);
        poster it = {.peer = link.peer, .lane = ours.lane};
        /* A copy that would go on for hours. */
        it.segment = segment_of(&ours, &link, 0, 0, PAGE);
        it.segment.count = UINT64_C(1) << 36;
        assert_int_equal(pthread_create(&it.thread, NULL, post_on, &it), 0);
        while (__atomic_load_n(&theirs.memory.base[PAGE - 1], __ATOMIC_RELAXED) == 0)
            sched_yield();
        expect_status(KVF_ERR_BUSY, shm_ops()->fence(link.peer));
        assert_int_equal(pthread_join(it.thread, NULL), 0);
        assert_int_equal(it.posts, 0);
        assert_int_equal(it.last, KVF_ERR_CANCELLED);
        link_close(&link);
        side_close(&theirs);
        side_close(&ours);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_to_a_mapping_once_fence_has_returned),
        cmocka_unit_test(nothing_is_written_by_cma_once_fence_has_returned),
        cmocka_unit_test(fence_stops_a_large_copy_between_its_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
