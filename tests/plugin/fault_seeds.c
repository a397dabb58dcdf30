/* Runs from seeds with everything going wrong at once: the contract of plugin.h holds in each, and a seed gives the
 * same run again. A failing seed is in the message. */
#include <stdio.h>
#include <string.h>

#include "fault_rig.h"

enum { OPERATIONS = 60, PAGE = 16, SEGMENTS = 4, TRANSCRIPT = 4096 };

static const char *const kOptions =
    "seed=%u,fail=0.15,truncate=0.3,full=0.3,reorder=0.4,polls=0-6,delayed=0.5,never=0.1";

typedef struct run {
    rig rig;
    uint32_t accepted[OPERATIONS]; /* segments */
    int completed[OPERATIONS];
    char transcript[TRANSCRIPT];
    size_t length;
} run;

static void note(run *it, char what, uint64_t token, int64_t value) {
    const int wrote =
        snprintf(it->transcript + it->length, TRANSCRIPT - it->length, "%c%d:%d ", what, (int)token, (int)value);
    assert_true(wrote > 0 && (size_t)wrote < TRANSCRIPT - it->length);
    it->length += (size_t)wrote;
}

/* Marks the operation's pages once it has ended: a touch after that would show. */
static void take(run *it, const kvf_completion *done, unsigned seed) {
    const uint64_t token = done->token;
    if (token >= OPERATIONS || it->accepted[token] == 0 || it->completed[token] != 0)
        fail_msg("seed %u: a completion of %d, which is not in flight", seed, (int)token);
    const size_t bytes = (size_t)it->accepted[token] * PAGE;
    unsigned char *theirs = it->rig.their_memory + token * SEGMENTS * PAGE;
    if (done->status == KVF_OK &&
        (done->bytes != bytes || memcmp(theirs, it->rig.our_memory + token * SEGMENTS * PAGE, bytes) != 0))
        fail_msg("seed %u: operation %d is told as done and is not", seed, (int)token);
    if (done->status != KVF_OK && done->status != KVF_ERR_TRANSPORT && done->status != KVF_ERR_CANCELLED)
        fail_msg("seed %u: operation %d ended with %d", seed, (int)token, done->status);
    it->completed[token] = 1;
    memset(theirs, 0x5c, SEGMENTS * PAGE);
    note(it, 'c', token, done->status);
}

static void poll_once(run *it, unsigned seed) {
    kvf_completion done[3];
    const int count = it->rig.ops->poll(it->rig.lane, done, 3);
    assert_true(count >= 0);
    for (int i = 0; i < count; i++)
        take(it, &done[i], seed);
}

static void post_all(run *it, unsigned seed) {
    for (uint64_t token = 0; token < OPERATIONS; token++) {
        kvf_segment segments[SEGMENTS];
        rig_segments(&it->rig, segments, SEGMENTS, token * SEGMENTS * PAGE, PAGE);
        while (it->accepted[token] == 0) {
            assert_int_equal(it->rig.ops->post(it->rig.lane, it->rig.peer, KVF_OP_WRITE, segments, SEGMENTS, token,
                                               &it->accepted[token]),
                             KVF_OK);
            note(it, 'p', token, it->accepted[token]);
            poll_once(it, seed);
        }
    }
}

/* Some of those that do not end by themselves are cancelled, the rest are fenced. */
static void end_all(run *it, unsigned seed) {
    for (int i = 0; i < 100; i++)
        poll_once(it, seed);
    for (uint64_t token = 0; token < OPERATIONS / 2; token++)
        if (!it->completed[token])
            assert_int_equal(it->rig.ops->cancel(it->rig.lane, token), KVF_OK);
    for (int i = 0; i < 100; i++)
        poll_once(it, seed);
    assert_int_equal(it->rig.ops->fence(it->rig.peer), KVF_OK);
    for (int i = 0; i < 100; i++)
        poll_once(it, seed);
    for (uint64_t token = 0; token < OPERATIONS; token++) {
        if (!it->completed[token])
            fail_msg("seed %u: operation %d did not end", seed, (int)token);
        for (size_t i = 0; i < SEGMENTS * PAGE; i++)
            if (it->rig.their_memory[token * SEGMENTS * PAGE + i] != 0x5c)
                fail_msg("seed %u: operation %d touched its memory after its end", seed, (int)token);
    }
}

static void run_seed(run *it, unsigned seed) {
    char options[256];
    char inner[64];
    memset(it, 0, sizeof *it);
    snprintf(options, sizeof options, kOptions, seed);
    snprintf(inner, sizeof inner, "take=%u,depth=%u,slow=%u", 1 + seed % 4, 1 + seed % 7, seed % 3);
    rig_open(&it->rig, options, "memory", inner);
    for (size_t i = 0; i < RIG_BYTES; i++)
        it->rig.our_memory[i] = (unsigned char)(i * 31 + seed);
    post_all(it, seed);
    end_all(it, seed);
    rig_close(&it->rig);
}

static void every_operation_ends_once_and_leaves_its_memory_alone(void **state) {
    (void)state;
    static run it;
    for (unsigned seed = 1; seed <= 300; seed++)
        run_seed(&it, seed);
}

static void a_seed_gives_the_same_run_again_and_another_seed_another(void **state) {
    (void)state;
    static run first, second;
    run_seed(&first, 42);
    run_seed(&second, 42);
    assert_string_equal(first.transcript, second.transcript);
    run_seed(&second, 43);
    assert_string_not_equal(first.transcript, second.transcript);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_ends_once_and_leaves_its_memory_alone),
        cmocka_unit_test(a_seed_gives_the_same_run_again_and_another_seed_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
