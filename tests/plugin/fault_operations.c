/* The fates of an operation: passed through, failed, delayed before or after, withheld until somebody ends it. */
#include <string.h>

#include "fault_rig.h"

static void assert_landed(const rig *it, uint64_t offset, uint64_t length) {
    assert_memory_equal(it->their_memory + offset, it->our_memory + offset, length);
}

static void assert_untouched(const rig *it) {
    for (size_t i = 0; i < RIG_BYTES; i++)
        assert_int_equal(it->their_memory[i], 0);
}

static void without_options_it_is_transparent(void **state) {
    (void)state;
    rig it;
    kvf_completion done[4];
    kvf_segment segment;
    uint32_t accepted = 0;
    rig_open(&it, "", "memory", "");
    rig_write(&it, 64, 100, 7);
    assert_int_equal(rig_reap(&it, done, 4, 1), 1);
    assert_int_equal(done[0].token, 7);
    assert_int_equal(done[0].status, KVF_OK);
    assert_int_equal(done[0].bytes, 100);
    assert_null(done[0].message);
    assert_landed(&it, 64, 100);

    memset(it.their_memory, 0x11, RIG_BYTES);
    rig_segments(&it, &segment, 1, 0, 32);
    assert_int_equal(it.ops->post(it.lane, it.peer, KVF_OP_READ, &segment, 1, 8, &accepted), KVF_OK);
    assert_int_equal(rig_reap(&it, done, 4, 1), 1);
    assert_int_equal(done[0].status, KVF_OK);
    assert_int_equal(it.our_memory[31], 0x11);
    assert_int_equal(it.our_memory[32], 0xaa);
    rig_close(&it);
}

static void a_refusal_of_the_transport_below_is_passed_on(void **state) {
    (void)state;
    rig it;
    kvf_segment segment;
    uint32_t accepted = 0;
    kvf_completion done[1];
    rig_open(&it, "", "memory", "");
    rig_segments(&it, &segment, 1, RIG_BYTES - 1, 2);
    assert_int_equal(it.ops->post(it.lane, it.peer, KVF_OP_WRITE, &segment, 1, 7, &accepted), KVF_ERR_RANGE);
    assert_string_equal(rig_sentence(), "a segment leaves its region");
    assert_int_equal(rig_reap(&it, done, 1, 3), 0);
    rig_close(&it);
}

static void a_failed_operation_moves_nothing_and_says_why(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_open(&it, "fail=1", "memory", "");
    rig_write(&it, 0, 64, 9);
    assert_int_equal(rig_reap(&it, done, 1, 1), 1);
    assert_int_equal(done[0].token, 9);
    assert_int_equal(done[0].status, KVF_ERR_TRANSPORT);
    assert_int_equal(done[0].bytes, 0);
    assert_string_equal(done[0].message, "failed by the fault plugin");
    assert_untouched(&it);
    rig_close(&it);
}

static void an_operation_held_before_has_not_happened_until_its_poll(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_open(&it, "polls=5,hold=before", "memory", "");
    rig_write(&it, 0, 64, 1);
    assert_int_equal(rig_reap(&it, done, 1, 5), 0);
    assert_untouched(&it);
    assert_int_equal(rig_reap(&it, done, 1, 1), 1);
    assert_int_equal(done[0].status, KVF_OK);
    assert_landed(&it, 0, 64);
    rig_close(&it);
}

static void an_operation_held_after_has_happened_and_is_told_later(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_open(&it, "polls=5,hold=after", "memory", "");
    rig_write(&it, 0, 64, 1);
    assert_int_equal(rig_reap(&it, done, 1, 1), 0);
    assert_landed(&it, 0, 64);
    assert_int_equal(rig_reap(&it, done, 1, 4), 0);
    assert_int_equal(rig_reap(&it, done, 1, 1), 1);
    assert_int_equal(done[0].status, KVF_OK);
    assert_int_equal(done[0].bytes, 64);
    rig_close(&it);
}

static void a_delay_in_milliseconds_ends_by_the_clock(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_open(&it, "delay=1-20,hold=before", "memory", "");
    rig_write(&it, 0, 64, 1);
    assert_int_equal(rig_reap(&it, done, 1, UINT32_MAX), 1);
    assert_int_equal(done[0].status, KVF_OK);
    assert_landed(&it, 0, 64);
    rig_close(&it);
}

/* The transport below takes two segments a post and has one place: what was held goes to it in pieces. */
static void a_held_operation_passes_a_narrow_transport_in_pieces_and_ends_once(void **state) {
    (void)state;
    rig it;
    kvf_completion done[2];
    kvf_segment segments[7];
    uint32_t accepted = 0;
    rig_open(&it, "polls=2,hold=before", "memory", "take=2,depth=1");
    rig_segments(&it, segments, 7, 0, 16);
    assert_int_equal(it.ops->post(it.lane, it.peer, KVF_OP_WRITE, segments, 7, 1, &accepted), KVF_OK);
    assert_int_equal(accepted, 7);
    assert_int_equal(rig_reap(&it, done, 2, 50), 1);
    assert_int_equal(done[0].status, KVF_OK);
    assert_int_equal(done[0].bytes, 7 * 16);
    assert_landed(&it, 0, 7 * 16);
    rig_close(&it);
}

static void a_held_operation_that_is_refused_later_ends_with_that_status(void **state) {
    (void)state;
    rig it;
    kvf_completion done[2];
    kvf_segment segments[2];
    uint32_t accepted = 0;
    rig_open(&it, "polls=1,hold=before", "memory", "");
    rig_segments(&it, segments, 2, RIG_BYTES - 16, 16); /* the second one leaves the region */
    assert_int_equal(it.ops->post(it.lane, it.peer, KVF_OP_WRITE, segments, 2, 1, &accepted), KVF_OK);
    assert_int_equal(accepted, 2);
    assert_int_equal(rig_reap(&it, done, 2, 50), 1);
    assert_int_equal(done[0].status, KVF_ERR_RANGE);
    assert_int_equal(done[0].bytes, 16);
    rig_close(&it);
}

static void a_withheld_operation_ends_by_cancel(void **state) {
    (void)state;
    const char *const holds[] = {"never=1,hold=before", "never=1,hold=after"};
    for (int i = 0; i < 2; i++) {
        rig it;
        kvf_completion done[1];
        rig_open(&it, holds[i], "memory", "");
        rig_write(&it, 0, 64, 5);
        assert_int_equal(rig_reap(&it, done, 1, 1000), 0);
        assert_int_equal(it.ops->cancel(it.lane, 5), KVF_OK);
        assert_int_equal(rig_reap(&it, done, 1, 1), 1);
        assert_int_equal(done[0].token, 5);
        assert_int_equal(done[0].status, KVF_ERR_CANCELLED);
        assert_int_equal(it.ops->cancel(it.lane, 5), KVF_ERR_INVALID);
        assert_int_equal(rig_reap(&it, done, 1, 10), 0);
        rig_close(&it);
    }
}

static void a_withheld_operation_ends_by_fence_and_nothing_moves_after_it(void **state) {
    (void)state;
    rig it;
    kvf_completion done[4];
    rig_open(&it, "polls=10,hold=before", "memory", "");
    rig_write(&it, 0, 64, 1);
    rig_write(&it, 64, 64, 2);
    assert_int_equal(rig_reap(&it, done, 4, 3), 0);
    assert_int_equal(it.ops->fence(it.peer), KVF_OK);
    assert_int_equal(rig_reap(&it, done, 4, 1), 2);
    assert_int_equal(done[0].status, KVF_ERR_CANCELLED);
    assert_int_equal(done[1].status, KVF_ERR_CANCELLED);
    assert_int_equal(rig_reap(&it, done, 4, 20), 0);
    assert_untouched(&it);
    rig_close(&it);
}

static void cancel_reaches_an_operation_in_the_transport_below(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_open(&it, "", "memory", "slow=1000000");
    rig_write(&it, 0, 64, 5);
    assert_int_equal(rig_reap(&it, done, 1, 10), 0);
    assert_int_equal(it.ops->cancel(it.lane, 5), KVF_OK);
    assert_int_equal(rig_reap(&it, done, 1, 1), 1);
    assert_int_equal(done[0].status, KVF_ERR_CANCELLED);
    assert_string_equal(done[0].message, "ended early");
    assert_untouched(&it);
    rig_close(&it);
}

/* The transport below is still at the memory, so the operation has not ended, whatever was asked for. */
static void a_cancelled_operation_ends_only_when_the_transport_below_has_let_go(void **state) {
    (void)state;
    const char *const options[] = {"", "never=1,hold=after"};
    const int32_t ends[] = {KVF_OK, KVF_ERR_CANCELLED};
    for (int i = 0; i < 2; i++) {
        rig it;
        kvf_completion done[1];
        rig_open(&it, options[i], "memory", "slow=5,stubborn=1");
        rig_write(&it, 0, 64, 5);
        assert_int_equal(it.ops->cancel(it.lane, 5), KVF_OK);
        assert_int_equal(rig_reap(&it, done, 1, 5), 0);
        assert_untouched(&it);
        assert_int_equal(rig_reap(&it, done, 1, 1), 1);
        assert_int_equal(done[0].status, ends[i]);
        assert_landed(&it, 0, 64);
        rig_close(&it);
    }
}

static void a_lane_closes_with_withheld_operations(void **state) {
    (void)state;
    const char *const holds[] = {"never=1,hold=before", "never=1,hold=after"};
    for (int i = 0; i < 2; i++) {
        rig it;
        rig_open(&it, holds[i], "memory", "slow=3");
        rig_write(&it, 0, 64, 5);
        rig_close(&it);
    }
}

static void reordering_lets_later_completions_pass(void **state) {
    (void)state;
    rig it;
    kvf_completion done[40];
    int passed = 0;
    rig_open(&it, "reorder=0.5,seed=3", "memory", "");
    for (uint64_t i = 0; i < 40; i++)
        rig_write(&it, i * 64, 64, i);
    assert_int_equal(rig_reap(&it, done, 40, 10), 40);
    for (int i = 1; i < 40; i++)
        passed += done[i].token < done[i - 1].token;
    assert_true(passed > 0);
    rig_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_options_it_is_transparent),
        cmocka_unit_test(a_refusal_of_the_transport_below_is_passed_on),
        cmocka_unit_test(a_failed_operation_moves_nothing_and_says_why),
        cmocka_unit_test(an_operation_held_before_has_not_happened_until_its_poll),
        cmocka_unit_test(an_operation_held_after_has_happened_and_is_told_later),
        cmocka_unit_test(a_delay_in_milliseconds_ends_by_the_clock),
        cmocka_unit_test(a_held_operation_passes_a_narrow_transport_in_pieces_and_ends_once),
        cmocka_unit_test(a_held_operation_that_is_refused_later_ends_with_that_status),
        cmocka_unit_test(a_withheld_operation_ends_by_cancel),
        cmocka_unit_test(a_withheld_operation_ends_by_fence_and_nothing_moves_after_it),
        cmocka_unit_test(cancel_reaches_an_operation_in_the_transport_below),
        cmocka_unit_test(a_cancelled_operation_ends_only_when_the_transport_below_has_let_go),
        cmocka_unit_test(a_lane_closes_with_withheld_operations),
        cmocka_unit_test(reordering_lets_later_completions_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
