/* Structs and arrays as callers of older and newer versions of the header pass them, and pointers that are NULL. */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <string.h>

/* A struct as a later header might have it: with more at its end. */
#define LATER(type)       \
    struct {              \
        type known;       \
        uint64_t unknown; \
    }

static kvf_engine *prefill_engine(void) {
    const kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    unsigned char *memory;
    return engine_open(&config, &memory);
}

static void a_struct_without_its_size_is_refused(void **state) {
    (void)state;
    kvf_engine *engine = prefill_engine(), *none = NULL;
    kvf_room room = {0};
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_sender_options sender;
    kvf_bootstrap_config bootstrap;
    kvf_bootstrap *server = NULL;
    kvf_chunk chunk;
    memset(&sender, 0, sizeof sender);
    memset(&bootstrap, 0, sizeof bootstrap);
    memset(&chunk, 0, sizeof chunk);
    const uint32_t wrong[] = {0, 7, 65537, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config.struct_size = sender.struct_size = bootstrap.struct_size = chunk.struct_size = wrong[i];
        EXPECT_ERROR(kvf_engine_create(&config, &none), KVF_ERR_INVALID, "kvf_engine_config: struct_size is ");
        assert_null(none);
        EXPECT_ERROR(kvf_room_open_sender(engine, 7, &sender, &room), KVF_ERR_INVALID, "sizeof(kvf_sender_options)");
        EXPECT_ERROR(kvf_bootstrap_start(&bootstrap, &server), KVF_ERR_INVALID,
                     "kvf_bootstrap_config: struct_size is ");
        EXPECT_OK(kvf_room_open_sender(engine, 8, NULL, &room));
        EXPECT_ERROR(kvf_room_send(engine, room, &chunk), KVF_ERR_INVALID, "kvf_chunk: struct_size is ");
        EXPECT_OK(kvf_room_abort(engine, room, NULL));
        close_room(engine, room);
    }
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void a_receivers_options_without_their_size_are_refused(void **state) {
    (void)state;
    const kvf_engine_config config = config_of(KVF_ROLE_DECODE);
    kvf_engine *engine = engine_open(&config, NULL);
    kvf_receiver_options options;
    kvf_room room;
    memset(&options, 0, sizeof options);
    EXPECT_ERROR(kvf_room_open_receiver(engine, "a:1", 7, &options, &room), KVF_ERR_INVALID,
                 "kvf_receiver_options: struct_size is 0; expected sizeof(kvf_receiver_options), which is ");
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void what_an_older_struct_lacks_is_the_default(void **state) {
    (void)state;
    kvf_engine *engine = NULL;
    kvf_engine_config config;
    memset(&config, 0xff, sizeof config); /* what lies behind struct_size is not to be read */
    config.struct_size = offsetof(kvf_engine_config, name);
    config.role = KVF_ROLE_PREFILL;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    assert_memory_equal(kvf_engine_address(engine), "tcp://127.0.0.1:", 16);

    kvf_room room;
    kvf_sender_options options;
    memset(&options, 0xff, sizeof options);
    options.struct_size = offsetof(kvf_sender_options, bootstrap_ms);
    options.receivers = 2;
    EXPECT_OK(kvf_room_open_sender(engine, 7, &options, &room));
    EXPECT_OK(kvf_room_abort(engine, room, NULL));
    close_room(engine, room);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void what_a_newer_struct_has_more_must_be_zero(void **state) {
    (void)state;
    kvf_engine *engine = NULL;
    LATER(kvf_engine_config) config;
    memset(&config, 0, sizeof config);
    config.known = config_of(KVF_ROLE_PREFILL);
    config.known.struct_size = sizeof config;
    config.unknown = 1;
    EXPECT_ERROR(kvf_engine_create(&config.known, &engine), KVF_ERR_UNSUPPORTED, "this library knows ");
    config.unknown = 0;
    EXPECT_OK(kvf_engine_create(&config.known, &engine));

    kvf_room room;
    LATER(kvf_sender_options) options;
    memset(&options, 0, sizeof options);
    options.known.struct_size = sizeof options;
    options.unknown = (uint64_t)1 << 63;
    EXPECT_ERROR(kvf_room_open_sender(engine, 7, &options.known, &room), KVF_ERR_UNSUPPORTED,
                 "kvf_sender_options: byte ");
    options.unknown = 0;
    EXPECT_OK(kvf_room_open_sender(engine, 7, &options.known, &room));

    LATER(kvf_chunk) chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.known.struct_size = sizeof chunk;
    chunk.unknown = 9;
    EXPECT_ERROR(kvf_room_send(engine, room, &chunk.known), KVF_ERR_UNSUPPORTED, "kvf_chunk: byte ");
    chunk.unknown = 0;
    EXPECT_OK(kvf_room_send(engine, room, &chunk.known));
    EXPECT_OK(kvf_room_abort(engine, room, NULL));
    close_room(engine, room);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void what_is_reserved_must_be_zero(void **state) {
    (void)state;
    kvf_engine *engine = NULL;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    config.reserved = 5;
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_UNSUPPORTED, "reserved is 5; expected 0");
    assert_null(engine);
}

static void structs_that_are_filled_keep_their_size(void **state) {
    (void)state;
    kvf_engine *engine = prefill_engine();
    kvf_room room;
    LATER(kvf_room_status) status;
    LATER(kvf_report) report;
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &room));
    EXPECT_OK(kvf_room_abort(engine, room, "over"));
    EXPECT_ERROR(kvf_room_close(engine, (kvf_room){0}), KVF_ERR_FOREIGN, "");
    EXPECT_END(engine, room, KVF_ERR_ABORTED);

    /* As short as state alone, exact, and longer. */
    const uint32_t sizes[] = {offsetof(kvf_room_status, flags), sizeof(kvf_room_status), sizeof status};
    for (size_t i = 0; i < 3; i++) {
        for (int wait = 0; wait < 2; wait++) {
            memset(&status, 0xab, sizeof status);
            status.known.struct_size = sizes[i];
            if (wait)
                EXPECT_OK(kvf_room_wait(engine, room, LONG_MS, &status.known));
            else
                EXPECT_OK(kvf_room_poll(engine, room, &status.known));
            assert_int_equal(status.known.struct_size, sizes[i]);
            assert_int_equal(status.known.state, KVF_STATE_FAILED);
            if (sizes[i] == offsetof(kvf_room_status, flags))
                assert_int_equal(status.known.flags, 0xababababu);
            else
                assert_int_equal(status.known.code, KVF_ERR_ABORTED);
            assert_true(status.unknown == 0xababababababababu);
        }
    }
    const uint32_t report_sizes[] = {offsetof(kvf_report, bytes), sizeof(kvf_report), sizeof report};
    for (size_t i = 0; i < 3; i++) {
        memset(&report, 0xab, sizeof report);
        report.known.struct_size = report_sizes[i];
        EXPECT_OK(kvf_room_report(engine, room, &report.known));
        assert_int_equal(report.known.struct_size, report_sizes[i]);
        assert_int_equal(report.known.room_id, 7);
        if (report_sizes[i] == offsetof(kvf_report, bytes))
            assert_true(report.known.bytes == 0xababababababababu);
        else
            assert_string_equal(report.known.message, "over");
        assert_true(report.unknown == 0xababababababababu);
    }
    close_room(engine, room);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void structs_to_be_filled_without_their_size_are_refused(void **state) {
    (void)state;
    kvf_engine *engine = prefill_engine();
    kvf_room room;
    kvf_room_status status;
    kvf_report report;
    memset(&status, 0, sizeof status);
    memset(&report, 0, sizeof report);
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &room));
    EXPECT_ERROR(kvf_room_poll(engine, room, &status), KVF_ERR_INVALID, "kvf_room_status: struct_size is 0");
    EXPECT_ERROR(kvf_room_report(engine, room, &report), KVF_ERR_INVALID, "kvf_report: struct_size is 0");
    /* It does not wait for the room to tell that. */
    EXPECT_ERROR(kvf_room_wait(engine, room, UINT32_MAX, &status), KVF_ERR_INVALID,
                 "kvf_room_status: struct_size is 0");
    status.struct_size = UINT32_MAX;
    EXPECT_ERROR(kvf_room_poll(engine, room, &status), KVF_ERR_INVALID, "kvf_room_status: struct_size is 4294967295");
    EXPECT_OK(kvf_room_abort(engine, room, NULL));
    close_room(engine, room);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

/* --------------------------------------------------------------------------------------------------------- arrays */

static void an_array_with_a_stride_below_its_struct_is_refused(void **state) {
    (void)state;
    kvf_engine *engine = prefill_engine();
    kvf_room room;
    kvf_tensor tensor;
    kvf_event event;
    kvf_counter counter;
    kvf_config_entry entry;
    kvf_plugin_info plugin;
    kvf_chunk chunk;
    const uint32_t page = 0;
    const kvf_index_list list = {0, 1, &page};
    memset(&tensor, 0, sizeof tensor);
    memset(&chunk, 0, sizeof chunk);
    EXPECT_ERROR(kvf_engine_register(engine, &tensor, 1, sizeof tensor - 1), KVF_ERR_INVALID,
                 "the stride of tensors is ");
    EXPECT_ERROR(kvf_engine_register(engine, &tensor, 1, 0), KVF_ERR_INVALID, "the stride of tensors is 0");
    EXPECT_ERROR(kvf_engine_events(engine, &event, 1, 4, 0), KVF_ERR_INVALID, "the stride of events is 4");
    EXPECT_ERROR(kvf_engine_counters(engine, &counter, 1, 4), KVF_ERR_INVALID, "the stride of counters is 4");
    EXPECT_ERROR(kvf_config_list(&entry, 1, 4), KVF_ERR_INVALID, "the stride of entries is 4");
    EXPECT_ERROR(kvf_plugin_list(&plugin, 1, 4), KVF_ERR_INVALID, "the stride of plugins is 4");
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &room));
    chunk.struct_size = sizeof chunk;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list - 1;
    EXPECT_ERROR(kvf_room_send(engine, room, &chunk), KVF_ERR_INVALID, "the stride of lists is ");
    EXPECT_ERROR(kvf_engine_register(engine, NULL, 1, sizeof tensor), KVF_ERR_INVALID,
                 "tensors is NULL and its count 1");
    EXPECT_ERROR(kvf_engine_events(engine, NULL, 1, sizeof event, 0), KVF_ERR_INVALID, "events is NULL");
    EXPECT_OK(kvf_room_abort(engine, room, NULL));
    close_room(engine, room);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void arrays_of_newer_structs_are_read_as_far_as_they_are_known(void **state) {
    (void)state;
    const kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = engine_open(&config, NULL);
    static unsigned char memory[2][1024];
    LATER(kvf_tensor) tensors[2];
    memset(tensors, 0, sizeof tensors);
    for (uint32_t i = 0; i < 2; i++) {
        tensors[i].known.layer = i;
        tensors[i].known.base = memory[i];
        tensors[i].known.page_count = 4;
        tensors[i].known.page_bytes = 256;
    }
    tensors[1].unknown = 3;
    EXPECT_ERROR(kvf_engine_register(engine, &tensors[0].known, 2, sizeof *tensors), KVF_ERR_UNSUPPORTED,
                 "kvf_tensor: byte ");
    tensors[1].unknown = 0;
    EXPECT_OK(kvf_engine_register(engine, &tensors[0].known, 2, sizeof *tensors));

    LATER(kvf_counter) counters[64];
    memset(counters, 0xab, sizeof counters);
    const int count = kvf_engine_counters(engine, &counters[0].known, 64, sizeof *counters);
    assert_in_range(count, 20, 64);
    for (int i = 0; i < count; i++) {
        assert_non_null(counters[i].known.name);
        assert_true(counters[i].unknown == 0xababababababababu);
    }
    assert_int_equal(kvf_engine_counters(engine, NULL, 0, 0), count);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

/* ----------------------------------------------------------------------------------------------------------- NULL */

static void a_null_engine_is_refused_everywhere(void **state) {
    (void)state;
    const kvf_room room = {1};
    kvf_room opened;
    kvf_room_status status;
    kvf_report report;
    kvf_chunk chunk;
    void *memory;
    kvf_tensor tensor;
    uint32_t poll_state;
    kvf_counter counter;
    kvf_event event;
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    memset(&tensor, 0, sizeof tensor);
    EXPECT_ERROR(kvf_engine_load_transport(NULL, "shm", NULL), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_engine_unload_transport(NULL, "shm", 0), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_memory_alloc(NULL, 1, &memory), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_memory_free(NULL, NULL), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_engine_register(NULL, &tensor, 1, sizeof tensor), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_open_sender(NULL, 7, NULL, &opened), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_open_receiver(NULL, "a:1", 7, NULL, &opened), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_accept(NULL, room, NULL, 0, 0), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_send(NULL, room, &chunk), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_poll(NULL, room, &status), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_poll_many(NULL, &room, &poll_state, 1), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_wait(NULL, room, 0, &status), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_abort(NULL, room, NULL), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_close(NULL, room), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_close_deferred(NULL, room), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_room_report(NULL, room, &report), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_engine_events(NULL, &event, 1, sizeof event, 0), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_engine_event_fd(NULL), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_engine_counters(NULL, &counter, 1, sizeof counter), KVF_ERR_INVALID, "engine is NULL");
    assert_string_equal(kvf_engine_address(NULL), "");
    assert_string_equal(kvf_bootstrap_address(NULL), "");
    EXPECT_OK(kvf_engine_destroy(NULL, 0));
    EXPECT_OK(kvf_bootstrap_stop(NULL));
}

static void what_is_to_be_filled_must_be_there(void **state) {
    (void)state;
    const kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = prefill_engine();
    kvf_room room;
    EXPECT_ERROR(kvf_engine_create(NULL, &engine), KVF_ERR_INVALID, "kvf_engine_config is NULL");
    EXPECT_ERROR(kvf_engine_create(&config, NULL), KVF_ERR_INVALID, "engine is NULL");
    EXPECT_ERROR(kvf_bootstrap_start(NULL, NULL), KVF_ERR_INVALID, "bootstrap is NULL");
    EXPECT_ERROR(kvf_engine_load_transport(engine, NULL, NULL), KVF_ERR_INVALID, "name is NULL");
    EXPECT_ERROR(kvf_engine_unload_transport(engine, NULL, 0), KVF_ERR_INVALID, "name is NULL");
    EXPECT_ERROR(kvf_memory_alloc(engine, 1, NULL), KVF_ERR_INVALID, "memory is NULL");
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &room));
    EXPECT_ERROR(kvf_room_poll(engine, room, NULL), KVF_ERR_INVALID, "status is NULL");
    EXPECT_ERROR(kvf_room_report(engine, room, NULL), KVF_ERR_INVALID, "report is NULL");
    EXPECT_ERROR(kvf_room_send(engine, room, NULL), KVF_ERR_INVALID, "kvf_chunk is NULL");
    EXPECT_ERROR(kvf_room_poll_many(engine, NULL, NULL, 1), KVF_ERR_INVALID, "rooms is NULL and count 1");
    EXPECT_ERROR(kvf_room_poll_many(engine, &room, NULL, 1), KVF_ERR_INVALID, "states is NULL and count 1");
    EXPECT_OK(kvf_room_poll_many(engine, NULL, NULL, 0));
    EXPECT_OK(kvf_room_abort(engine, room, NULL));
    EXPECT_OK(kvf_room_wait(engine, room, LONG_MS, NULL));
    close_room(engine, room);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_struct_without_its_size_is_refused),
        cmocka_unit_test(a_receivers_options_without_their_size_are_refused),
        cmocka_unit_test(what_an_older_struct_lacks_is_the_default),
        cmocka_unit_test(what_a_newer_struct_has_more_must_be_zero),
        cmocka_unit_test(what_is_reserved_must_be_zero),
        cmocka_unit_test(structs_that_are_filled_keep_their_size),
        cmocka_unit_test(structs_to_be_filled_without_their_size_are_refused),
        cmocka_unit_test(an_array_with_a_stride_below_its_struct_is_refused),
        cmocka_unit_test(arrays_of_newer_structs_are_read_as_far_as_they_are_known),
        cmocka_unit_test(a_null_engine_is_refused_everywhere),
        cmocka_unit_test(what_is_to_be_filled_must_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
