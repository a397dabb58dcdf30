/* A host that sleeps on the lane's descriptor, or in wait, sees every completion and every fence. */
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "fault_rig.h"

/* Sleeps as a shard does: arm, and on KVF_ERR_BUSY poll again instead. The limit only ends a test that hangs. */
static uint32_t sleep_until_done(rig *it, kvf_completion *done, uint32_t count) {
    uint32_t got = 0;
    for (;;) {
        got += rig_reap(it, done + got, count - got, 1);
        if (got == count)
            return got;
        const int armed = it->ops->arm(it->lane);
        if (armed == KVF_ERR_BUSY)
            continue;
        assert_int_equal(armed, KVF_OK);
        struct pollfd fd = {it->ops->event_fd(it->lane), POLLIN, 0};
        assert_true(fd.fd >= 0);
        if (poll(&fd, 1, 30000) == 0)
            return got;
    }
}

static void held_operations_wake_the_sleeper_when_they_are_due(void **state) {
    (void)state;
    const char *const options[] = {"",           "delay=1-10,hold=before",           "delay=1-10,hold=after",
                                   "polls=1-10", "delay=1-5,polls=1-10,reorder=0.5", "fail=1,delay=3"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        rig it;
        kvf_completion done[20];
        rig_open(&it, options[i], "memory", "depth=4,slow=2");
        for (uint64_t token = 0; token < 20; token += 4) {
            for (uint64_t j = 0; j < 4; j++)
                rig_write(&it, (token + j) * 64, 64, token + j);
            assert_int_equal(sleep_until_done(&it, done, 4), 4);
        }
        rig_close(&it);
    }
}

static void a_host_may_sleep_over_what_is_held_by_time_and_not_over_counts_of_polls(void **state) {
    (void)state;
    static const struct {
        const char *options;
        int armed;
    } cases[] = {
        {"delay=100000000,hold=before", KVF_OK},  {"delay=100000000,hold=after", KVF_OK},  {"never=1", KVF_OK},
        {"polls=1000,hold=before", KVF_ERR_BUSY}, {"polls=1000,hold=after", KVF_ERR_BUSY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig it;
        kvf_completion done[1];
        rig_open(&it, cases[i].options, "memory", "");
        rig_write(&it, 0, 64, 1);
        assert_int_equal(rig_reap(&it, done, 1, 3), 0);
        assert_int_equal(it.ops->arm(it.lane), cases[i].armed);
        rig_close(&it);
    }
}

static void *fence(void *argument) {
    rig *it = argument;
    assert_int_equal(it->ops->fence(it->peer), KVF_OK);
    return NULL;
}

static void a_fence_on_another_thread_wakes_the_sleeper(void **state) {
    (void)state;
    const char *const options[] = {"never=1,hold=before", "never=1,hold=after", "delay=100000000",
                                   "polls=0-40,hold=before"};
    for (size_t i = 0; i < 400; i++) {
        rig it;
        kvf_completion done[3];
        pthread_t thread;
        rig_open(&it, options[i % 4], "memory", "");
        for (uint64_t token = 0; token < 3; token++)
            rig_write(&it, token * 64, 64, token);
        assert_int_equal(pthread_create(&thread, NULL, fence, &it), 0);
        assert_int_equal(sleep_until_done(&it, done, 3), 3);
        for (int j = 0; j < 3; j++)
            if (done[j].status != KVF_OK) /* one that the transport below finished before the fence came */
                assert_int_equal(done[j].status, KVF_ERR_CANCELLED);
        pthread_join(thread, NULL);
        rig_close(&it);
    }
}

static void wait_returns_in_time_for_what_is_held(void **state) {
    (void)state;
    rig it;
    kvf_completion done[4];
    uint32_t got = 0;
    rig_open(&it, "delay=1-20", "memory", "");
    for (uint64_t token = 0; token < 4; token++)
        rig_write(&it, token * 64, 64, token);
    while (got < 4) {
        assert_int_equal(it.ops->wait(it.lane, 60000), KVF_OK);
        got += rig_reap(&it, done + got, 4 - got, 1);
    }
    rig_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_operations_wake_the_sleeper_when_they_are_due),
        cmocka_unit_test(a_host_may_sleep_over_what_is_held_by_time_and_not_over_counts_of_polls),
        cmocka_unit_test(a_fence_on_another_thread_wakes_the_sleeper),
        cmocka_unit_test(wait_returns_in_time_for_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
