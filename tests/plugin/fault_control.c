/* What is not on lanes: options and their environment, peers, keys, fences, counters, and a transport below that has
 * only the required operations. */
#include <string.h>

#include "fault_rig.h"

static void an_option_that_does_not_parse_is_named(void **state) {
    (void)state;
    static const struct {
        const char *options, *sentence;
    } cases[] = {
        {"fail=2", "option fail is \"2\"; expected a probability from 0 to 1"},
        {"fail=nan", "option fail is \"nan\"; expected a probability from 0 to 1"},
        {"seed=-1", "option seed is \"-1\"; expected a number"},
        {"delay=9-1", "option delay is \"9-1\"; expected a number or a range as 1-9"},
        {"delay=9ms", "option delay is \"9ms\"; expected a number or a range as 1-9"},
        {"hold=often", "option hold is \"often\"; expected before, after or either"},
        {"seed=1,fial=0.5", "option \"fial\" is not known"},
        {"seed", "option seed is \"\"; expected a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rig_try_open(cases[i].options), KVF_ERR_OPTION);
        assert_string_equal(rig_sentence(), cases[i].sentence);
    }
}

static void the_environment_is_the_default_and_an_option_wins(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_set_variable("FAULT_FAIL", "1");
    rig_open(&it, "", "memory", "");
    rig_write(&it, 0, 16, 1);
    assert_int_equal(rig_reap(&it, done, 1, 5), 1);
    assert_int_equal(done[0].status, KVF_ERR_TRANSPORT);
    rig_close(&it);
    rig_open(&it, "fail=0", "memory", "");
    rig_write(&it, 0, 16, 1);
    assert_int_equal(rig_reap(&it, done, 1, 5), 1);
    assert_int_equal(done[0].status, KVF_OK);
    rig_close(&it);
    rig_set_variable("FAULT_FAIL", "often");
    assert_int_equal(rig_try_open(""), KVF_ERR_OPTION);
    assert_string_equal(rig_sentence(), "KVF_FAULT_FAIL is \"often\"; expected a probability from 0 to 1");
    rig_set_variable("FAULT_FAIL", NULL);
}

static void it_does_not_open_without_a_transport_below(void **state) {
    (void)state;
    kvf_open_params params;
    kvf_instance *instance = NULL;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    params.options = "";
    assert_int_equal(rig_fault()->ops->open(&params, &instance), KVF_ERR_INVALID);
    assert_string_equal(rig_sentence(), "fault is a decorator and needs a transport below it");
    params.inner = rig_inner("memory");
    params.inner_options = "mistake=1";
    assert_int_equal(rig_fault()->ops->open(&params, &instance), KVF_ERR_OPTION);
    assert_string_equal(rig_sentence(), "the fixture has no \"mistake\"");
}

static void the_first_connects_fail_and_the_next_succeeds(void **state) {
    (void)state;
    rig it;
    kvf_peer *peer = NULL;
    kvf_peer_params params;
    const uint64_t address = 2;
    rig_open(&it, "", "memory", ""); /* for their instance and memory */
    kvf_open_params open;
    kvf_instance *instance = NULL;
    memset(&open, 0, sizeof open);
    open.struct_size = sizeof open;
    open.options = "connect_fail_first=2";
    open.inner = rig_inner("memory");
    open.inner_options = "";
    assert_int_equal(it.ops->open(&open, &instance), KVF_OK);
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    params.address = &address;
    params.address_size = sizeof address;
    assert_int_equal(it.ops->peer_create(instance, &params, &peer), KVF_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(it.ops->peer_connect(peer, NULL, 0), KVF_ERR_UNREACHABLE);
        assert_string_equal(rig_sentence(), "connect failed by the fault plugin");
    }
    assert_int_equal(it.ops->peer_connect(peer, NULL, 0), KVF_OK);
    it.ops->peer_destroy(peer);
    it.ops->close(instance);
    rig_close(&it);
}

static void keys_and_registrations_fail_as_asked(void **state) {
    (void)state;
    kvf_open_params open;
    kvf_instance *instance = NULL;
    kvf_region *region = NULL;
    kvf_region_params region_params;
    kvf_peer *peer = NULL;
    kvf_peer_params params;
    kvf_remote *remote = NULL;
    const uint64_t address = 2;
    char memory[16];
    const kvf_transport_ops *ops = rig_fault()->ops;
    memset(&open, 0, sizeof open);
    open.struct_size = sizeof open;
    open.options = "import_fail=1,register_fail=1";
    open.inner = rig_inner("memory");
    open.inner_options = "";
    assert_int_equal(ops->open(&open, &instance), KVF_OK);
    memset(&region_params, 0, sizeof region_params);
    region_params.struct_size = sizeof region_params;
    region_params.base = memory;
    region_params.length = sizeof memory;
    region_params.fd = -1;
    assert_int_equal(ops->register_region(instance, &region_params, &region), KVF_ERR_TRANSPORT);
    assert_string_equal(rig_sentence(), "registration failed by the fault plugin");
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    params.address = &address;
    params.address_size = sizeof address;
    assert_int_equal(ops->peer_create(instance, &params, &peer), KVF_OK);
    assert_int_equal(ops->import_key(peer, memory, sizeof memory, &remote), KVF_ERR_TRANSPORT);
    assert_string_equal(rig_sentence(), "import of a key failed by the fault plugin");
    ops->peer_destroy(peer);
    ops->close(instance);
}

static void a_fence_is_busy_as_often_as_asked(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_open(&it, "fence_busy=2,never=1", "memory", "");
    rig_write(&it, 0, 16, 1);
    assert_int_equal(it.ops->fence(it.peer), KVF_ERR_BUSY);
    assert_int_equal(it.ops->fence(it.peer), KVF_ERR_BUSY);
    assert_int_equal(rig_reap(&it, done, 1, 10), 0);
    assert_int_equal(it.ops->fence(it.peer), KVF_OK);
    assert_int_equal(rig_reap(&it, done, 1, 2), 1);
    assert_int_equal(done[0].status, KVF_ERR_CANCELLED);
    rig_close(&it);
}

static int post(rig *it, uint64_t token) {
    kvf_segment segment;
    uint32_t accepted = 9;
    rig_segments(it, &segment, 1, 0, 16);
    const int rc = it->ops->post(it->lane, it->peer, KVF_OP_WRITE, &segment, 1, token, &accepted);
    assert_int_equal(accepted, rc == KVF_OK);
    return rc;
}

static void after_a_busy_fence_nothing_is_posted_to_the_peer(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    rig_open(&it, "fence_busy=1,polls=2,hold=before", "memory", "");
    rig_write(&it, 0, 16, 1);
    memset(it.our_memory, 7, sizeof it.our_memory);
    assert_int_equal(it.ops->fence(it.peer), KVF_ERR_BUSY);
    assert_int_equal(post(&it, 2), KVF_ERR_CANCELLED);
    assert_string_equal(rig_sentence(), "the peer is fenced");
    /* Nor what was accepted before and held back. */
    assert_int_equal(rig_reap(&it, done, 1, 10), 1);
    assert_int_equal(done[0].token, 1);
    assert_int_equal(done[0].status, KVF_ERR_CANCELLED);
    assert_int_not_equal(it.their_memory[0], 7);
    assert_int_equal(it.ops->fence(it.peer), KVF_OK);
    assert_int_equal(post(&it, 3), KVF_ERR_CANCELLED);
    assert_int_equal(rig_reap(&it, done, 1, 10), 0);
    rig_close(&it);
}

static void counters_are_those_below_and_its_own(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    kvf_counter counters[32];
    rig_open(&it, "fail=1", "memory", "");
    rig_write(&it, 0, 16, 1);
    assert_int_equal(rig_reap(&it, done, 1, 5), 1);
    const int count = it.ops->counters(it.ours, NULL, 0);
    assert_int_equal(it.ops->counters(it.ours, counters, 32), count);
    assert_int_equal(count, 9);
    assert_string_equal(counters[0].name, "open_objects");
    assert_string_equal(counters[1].name, "fault_failed");
    assert_int_equal(counters[1].value, 1);
    assert_int_equal(it.ops->counters(it.ours, counters, 2), count);
    rig_close(&it);
}

static void a_transport_with_only_the_required_operations_is_enough(void **state) {
    (void)state;
    rig it;
    kvf_completion done[1];
    kvf_counter counters[32];
    unsigned char blob[8];
    size_t size = sizeof blob;
    rig_open(&it, "polls=2,hold=before", "shorter", "");
    assert_int_equal(it.ops->peer_export(it.peer, blob, &size), KVF_OK);
    assert_int_equal(size, 0);
    rig_write(&it, 0, 64, 1);
    assert_int_equal(rig_reap(&it, done, 1, 10), 1);
    assert_int_equal(done[0].status, KVF_OK);
    assert_int_equal(it.ops->fence(it.peer), KVF_ERR_UNSUPPORTED);
    assert_int_equal(it.ops->wait(it.lane, 1), KVF_ERR_UNSUPPORTED);
    assert_int_equal(it.ops->event_fd(it.lane), KVF_ERR_UNSUPPORTED);
    assert_int_equal(it.ops->arm(it.lane), KVF_OK);
    assert_int_equal(it.ops->cancel(it.lane, 1), KVF_ERR_INVALID);
    assert_int_equal(it.ops->counters(it.ours, counters, 32), 8);
    rig_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_option_that_does_not_parse_is_named),
        cmocka_unit_test(the_environment_is_the_default_and_an_option_wins),
        cmocka_unit_test(it_does_not_open_without_a_transport_below),
        cmocka_unit_test(the_first_connects_fail_and_the_next_succeeds),
        cmocka_unit_test(keys_and_registrations_fail_as_asked),
        cmocka_unit_test(a_fence_is_busy_as_often_as_asked),
        cmocka_unit_test(after_a_busy_fence_nothing_is_posted_to_the_peer),
        cmocka_unit_test(counters_are_those_below_and_its_own),
        cmocka_unit_test(a_transport_with_only_the_required_operations_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
