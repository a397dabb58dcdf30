/* Posts that take less than they are given. */
#include "fault_rig.h"

static void a_truncated_post_takes_at_least_one_and_fewer_than_all(void **state) {
    (void)state;
    rig it;
    kvf_segment segments[8];
    kvf_completion done[1];
    rig_open(&it, "truncate=1", "memory", "");
    for (uint64_t token = 0; token < 50; token++) {
        uint32_t accepted = 0;
        rig_segments(&it, segments, 8, 0, 16);
        assert_int_equal(it.ops->post(it.lane, it.peer, KVF_OP_WRITE, segments, 8, token, &accepted), KVF_OK);
        assert_in_range(accepted, 1, 7);
        assert_int_equal(rig_reap(&it, done, 1, 5), 1);
        assert_int_equal(done[0].status, KVF_OK);
        assert_int_equal(done[0].bytes, accepted * 16);
    }
    rig_close(&it);
}

static void a_post_of_one_segment_is_never_truncated(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_open(&it, "truncate=1", "memory", "");
    rig_write(&it, 0, 16, 1);
    assert_int_equal(rig_reap(&it, done, 1, 5), 1);
    rig_close(&it);
}

/* A host waits for a completion before it tries again, so there must be one to come. */
static void full_is_said_only_while_something_is_in_flight(void **state) {
    (void)state;
    rig it;
    kvf_segment segment;
    kvf_completion done[1];
    uint32_t accepted = 9;
    rig_open(&it, "full=1,polls=1", "memory", "");
    rig_write(&it, 0, 16, 1);
    rig_segments(&it, &segment, 1, 16, 16);
    assert_int_equal(it.ops->post(it.lane, it.peer, KVF_OP_WRITE, &segment, 1, 2, &accepted), KVF_OK);
    assert_int_equal(accepted, 0);
    assert_int_equal(rig_reap(&it, done, 1, 10), 1);
    rig_write(&it, 16, 16, 2);
    assert_int_equal(rig_reap(&it, done, 1, 10), 1);
    rig_close(&it);
}

static void a_full_transport_below_is_told_as_full(void **state) {
    (void)state;
    rig it;
    kvf_segment segment;
    kvf_completion done[2];
    uint32_t accepted = 9;
    rig_open(&it, "", "memory", "depth=1");
    rig_write(&it, 0, 16, 1);
    rig_segments(&it, &segment, 1, 16, 16);
    assert_int_equal(it.ops->post(it.lane, it.peer, KVF_OP_WRITE, &segment, 1, 2, &accepted), KVF_OK);
    assert_int_equal(accepted, 0);
    assert_int_equal(rig_reap(&it, done, 2, 10), 1);
    rig_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncated_post_takes_at_least_one_and_fewer_than_all),
        cmocka_unit_test(a_post_of_one_segment_is_never_truncated),
        cmocka_unit_test(full_is_said_only_while_something_is_in_flight),
        cmocka_unit_test(a_full_transport_below_is_told_as_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
