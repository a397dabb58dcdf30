/* How rooms end other than well: aborts, deadlines, layouts that do not fit, engines that close; and how handles are
 * given up. */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t kPages[] = {1, 2, 3};

static void expect_message(kvf_engine *engine, kvf_room room, const char *text, int32_t rank) {
    const kvf_report report = report_of(engine, room);
    if (strstr(report.message, text) == NULL)
        fail_msg("\"%s\" does not have \"%s\"", report.message, text);
    assert_int_equal(report.rank, rank);
}

static void an_abort_ends_both_sides_at_once(void **state) {
    (void)state;
    static const char kToReceiver[] = "room 7 is at its end: KVF_ERR_PEER_ABORTED: preempted";
    static const char kToSender[] = "room 7 is at its end: KVF_ERR_PEER_ABORTED: disconnected";
    pair it;
    pair_open(&it, NULL, NULL);
    for (int by_prefill = 0; by_prefill < 2; by_prefill++)
        for (int accepted = 0; accepted < 2; accepted++) {
            kvf_room sender, receiver;
            open_rooms(&it, 7, &sender, &receiver);
            await(it.decode, receiver, KVF_STATE_WAITING);
            if (accepted) {
                EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
                await(it.prefill, sender, KVF_STATE_WAITING);
            }
            if (by_prefill) {
                EXPECT_OK(kvf_room_abort(it.prefill, sender, "preempted"));
                /* Prefill knows its receivers by their offers. */
                if (!accepted)
                    EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
            } else {
                EXPECT_OK(kvf_room_abort(it.decode, receiver, "disconnected"));
            }
            EXPECT_END(it.prefill, sender, by_prefill ? KVF_ERR_ABORTED : KVF_ERR_PEER_ABORTED);
            EXPECT_END(it.decode, receiver, by_prefill ? KVF_ERR_PEER_ABORTED : KVF_ERR_ABORTED);
            expect_message(it.prefill, sender, by_prefill ? "preempted" : "disconnected", by_prefill ? 3 : 5);
            expect_message(it.decode, receiver, by_prefill ? "preempted" : "disconnected", by_prefill ? 3 : 5);
            if (by_prefill)
                EXPECT_ERROR(accept_pages(it.decode, receiver, kPages, 3), KVF_ERR_STATE, kToReceiver);
            else
                EXPECT_ERROR(send_pages(it.prefill, sender, kPages, 3, 0), KVF_ERR_STATE, kToSender);
            close_room(it.prefill, sender);
            close_room(it.decode, receiver);
        }
    pair_close(&it);
}

static void an_abort_keeps_255_bytes_of_its_reason_and_changes_no_end(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    char reason[600];
    memset(reason, 'x', sizeof reason);
    reason[sizeof reason - 1] = '\0';
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(kvf_room_abort(it.decode, receiver, reason));
    EXPECT_END(it.decode, receiver, KVF_ERR_ABORTED);
    assert_int_equal(strlen(report_of(it.decode, receiver).message), 255);
    EXPECT_OK(kvf_room_abort(it.decode, receiver, "again"));
    EXPECT_END(it.prefill, sender, KVF_ERR_PEER_ABORTED);
    assert_memory_equal(report_of(it.decode, receiver).message, "xxx", 3);
    close_room(it.prefill, sender);
    close_room(it.decode, receiver);
    pair_close(&it);
}

/* ------------------------------------------------------------------------------------------------------ deadlines */

static void a_peer_that_is_not_there_is_looked_for_until_the_deadline(void **state) {
    (void)state;
    static const char *const places[] = {"127.0.0.1:1", "tcp://127.0.0.1:1", "unix:///nowhere/at/all"};
    const kvf_engine_config config = config_of(KVF_ROLE_DECODE);
    unsigned char *memory;
    kvf_engine *engine = engine_open(&config, &memory);
    kvf_receiver_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.bootstrap_ms = 300;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        kvf_room room;
        char text[96];
        snprintf(text, sizeof text, "room 7: no agreement with prefill %s within 300 ms: ", places[i]);
        EXPECT_OK(kvf_room_open_receiver(engine, places[i], 7, &options, &room));
        assert_int_equal(status_of(engine, room).state, KVF_STATE_BOOTSTRAPPING);
        EXPECT_END(engine, room, KVF_ERR_BOOTSTRAP);
        expect_message(engine, room, text, 5);
        assert_null(strstr(report_of(engine, room).message, "it has not answered"));
        close_room(engine, room);
    }
    await_counter(engine, "open_seeks", 0);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void the_report_of_a_room_that_looks_for_its_peer_says_why_it_still_does(void **state) {
    (void)state;
    static const char *const places[] = {"127.0.0.1:1", "tcp://127.0.0.1:1"};
    const kvf_engine_config config = config_of(KVF_ROLE_DECODE);
    unsigned char *memory;
    kvf_engine *engine = engine_open(&config, &memory);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        kvf_room room;
        EXPECT_OK(kvf_room_open_receiver(engine, places[i], 7, NULL, &room));
        for (int looks = 0; strstr(report_of(engine, room).message, "onnection refused") == NULL;)
            look_again(&looks);
        assert_int_equal(status_of(engine, room).state, KVF_STATE_BOOTSTRAPPING);
        EXPECT_OK(kvf_room_abort(engine, room, "enough"));
        EXPECT_END(engine, room, KVF_ERR_ABORTED);
        close_room(engine, room);
    }
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void a_place_that_can_not_be_is_refused(void **state) {
    (void)state;
    static const char *const places[][2] = {
        {"nonsense", "prefill 'nonsense': expected host:port"},
        {"127.0.0.1", "prefill '127.0.0.1': expected host:port"},
        {"127.0.0.1:0", "prefill '127.0.0.1:0': expected a port other than 0"},
        {"http://127.0.0.1", "prefill '127.0.0.1': expected host:port"},
        {"tcp://127.0.0.1", "prefill 'tcp://127.0.0.1': expected tcp://host:port"},
        {"tcp://127.0.0.1:0", "prefill 'tcp://127.0.0.1:0': expected a port other than 0"},
        {"tcp://127.0.0.1:99999", "prefill 'tcp://127.0.0.1:99999': its port is out of range"},
        {"unix://relative", "prefill 'unix://relative': expected unix:// and an absolute path"},
    };
    const kvf_engine_config config = config_of(KVF_ROLE_DECODE);
    unsigned char *memory;
    kvf_engine *engine = engine_open(&config, &memory);
    kvf_room room;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        EXPECT_ERROR(kvf_room_open_receiver(engine, places[i][0], 7, NULL, &room), KVF_ERR_INVALID, places[i][1]);
    assert_int_equal(counter_of(engine, "rooms_opened"), 0);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void every_wait_of_a_room_has_its_deadline(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    kvf_sender_options short_sender;
    kvf_receiver_options short_receiver;
    memset(&short_sender, 0, sizeof short_sender);
    memset(&short_receiver, 0, sizeof short_receiver);
    short_sender.struct_size = sizeof short_sender;
    short_receiver.struct_size = sizeof short_receiver;
    pair_open(&it, NULL, NULL);

    short_sender.bootstrap_ms = 50;
    EXPECT_OK(kvf_room_open_sender(it.prefill, 7, &short_sender, &sender));
    EXPECT_END(it.prefill, sender, KVF_ERR_BOOTSTRAP);
    expect_message(it.prefill, sender, "room 7: 0 of 1 receivers offered their pages within 50 ms", 3);
    close_room(it.prefill, sender);

    short_sender.bootstrap_ms = 0;
    short_sender.waiting_ms = 50;
    EXPECT_OK(kvf_room_open_sender(it.prefill, 8, &short_sender, &sender));
    EXPECT_OK(kvf_room_open_receiver(it.decode, kvf_engine_address(it.prefill), 8, NULL, &receiver));
    EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
    EXPECT_END(it.prefill, sender, KVF_ERR_WAIT_DEADLINE);
    EXPECT_END(it.decode, receiver, KVF_ERR_WAIT_DEADLINE);
    expect_message(it.decode, receiver, "room 8: no chunk was sent within 50 ms", 3);
    close_room(it.prefill, sender);
    close_room(it.decode, receiver);

    short_receiver.waiting_ms = 50;
    EXPECT_OK(kvf_room_open_sender(it.prefill, 9, NULL, &sender));
    EXPECT_OK(kvf_room_open_receiver(it.decode, kvf_engine_address(it.prefill), 9, &short_receiver, &receiver));
    EXPECT_END(it.decode, receiver, KVF_ERR_WAIT_DEADLINE);
    EXPECT_END(it.prefill, sender, KVF_ERR_WAIT_DEADLINE);
    expect_message(it.prefill, sender, "room 9: no pages were accepted within 50 ms", 5);
    close_room(it.prefill, sender);
    close_room(it.decode, receiver);

    short_sender.waiting_ms = 0;
    short_sender.transfer_ms = 50;
    EXPECT_OK(kvf_room_open_sender(it.prefill, 10, &short_sender, &sender));
    EXPECT_OK(kvf_room_open_receiver(it.decode, kvf_engine_address(it.prefill), 10, NULL, &receiver));
    EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
    EXPECT_OK(send_pages(it.prefill, sender, kPages, 1, 0));
    EXPECT_END(it.prefill, sender, KVF_ERR_TRANSFER_DEADLINE);
    EXPECT_END(it.decode, receiver, KVF_ERR_TRANSFER_DEADLINE);
    expect_message(it.decode, receiver, "room 10: the transfer did not end within 50 ms", 3);
    close_room(it.prefill, sender);
    close_room(it.decode, receiver);
    pair_close(&it);
}

static void an_offer_that_nobody_claims_is_answered(void **state) {
    (void)state;
    pair it;
    kvf_room receiver;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    config.waiting_ms = 50;
    pair_open(&it, &config, NULL);
    EXPECT_OK(kvf_room_open_receiver(it.decode, kvf_engine_address(it.prefill), 7, NULL, &receiver));
    EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
    EXPECT_END(it.decode, receiver, KVF_ERR_UNCLAIMED);
    expect_message(it.decode, receiver, "room 7 was not opened on the prefill side", 3);
    close_room(it.decode, receiver);
    await_counter(it.prefill, "open_unclaimed", 0);
    assert_int_equal(counter_of(it.prefill, "unclaimed_dropped"), 1);
    pair_close(&it);
}

/* -------------------------------------------------------------------------------------------------------- layouts */

typedef struct misfit {
    const char *text;
    uint32_t dtype, part;
    uint64_t page_bytes, rows, axis_begin, axis_count, axis_total, unit_bytes;
} misfit;

static void layouts_that_do_not_fit_fail_both_sides_with_field_and_values(void **state) {
    (void)state;
    static const misfit fits = {NULL, 1, 0, 512, 2, 0, 4, 8, 64};
    static const misfit misfits[] = {
        {"tensor (group 0, layer 0, part 0): dtype is 2 at decode", 2, 0, 512, 2, 0, 4, 8, 64},
        {"rows is 4 at decode", 1, 0, 1024, 4, 0, 4, 8, 64},
        {"unit_bytes is 32 at decode", 1, 0, 256, 2, 0, 4, 8, 32},
        {"axis_total is 4 at decode", 1, 0, 512, 2, 0, 4, 4, 64},
        {"axis_begin is 4 at decode", 1, 0, 512, 2, 4, 4, 8, 64},
        {"axis_count is 8 at decode", 1, 0, 1024, 2, 0, 8, 8, 64},
        {"tensor (group 0, layer 0, part 0) is registered at prefill", 1, 3, 512, 2, 0, 4, 8, 64},
    };
    static unsigned char memory[2][1 << 16];
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
        kvf_engine *engines[2];
        kvf_room sender, receiver;
        for (int decode = 0; decode < 2; decode++) {
            const misfit *shape = decode ? &misfits[i] : &fits;
            const kvf_engine_config config = config_of(decode ? KVF_ROLE_DECODE : KVF_ROLE_PREFILL);
            kvf_tensor tensor;
            memset(&tensor, 0, sizeof tensor);
            tensor.base = memory[decode];
            tensor.page_count = 8;
            tensor.dtype = shape->dtype;
            tensor.part = shape->part;
            tensor.page_bytes = shape->page_bytes;
            tensor.rows = shape->rows;
            tensor.axis_begin = shape->axis_begin;
            tensor.axis_count = shape->axis_count;
            tensor.axis_total = shape->axis_total;
            tensor.unit_bytes = shape->unit_bytes;
            engines[decode] = engine_open(&config, NULL);
            EXPECT_OK(kvf_engine_register(engines[decode], &tensor, 1, sizeof tensor));
        }
        EXPECT_OK(kvf_room_open_sender(engines[0], 7, NULL, &sender));
        EXPECT_OK(kvf_room_open_receiver(engines[1], kvf_engine_address(engines[0]), 7, NULL, &receiver));
        EXPECT_END(engines[1], receiver, KVF_ERR_LAYOUT);
        EXPECT_END(engines[0], sender, KVF_ERR_LAYOUT);
        const kvf_report received = report_of(engines[1], receiver), sent = report_of(engines[0], sender);
        if (strstr(received.message, misfits[i].text) == NULL || strstr(received.message, "at prefill") == NULL)
            fail_msg("\"%s\" does not have \"%s\"", received.message, misfits[i].text);
        assert_string_equal(sent.message, received.message);
        close_room(engines[0], sender);
        close_room(engines[1], receiver);
        EXPECT_OK(kvf_engine_destroy(engines[1], LONG_MS));
        EXPECT_OK(kvf_engine_destroy(engines[0], LONG_MS));
    }
}

static void engines_without_a_transport_in_common_fail_both_sides(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *prefill = NULL, *decode = NULL;
    unsigned char *to;
    static unsigned char from[MEMORY_BYTES];
    kvf_tensor tensors[TENSORS];
    kvf_room sender, receiver;
    EXPECT_OK(kvf_engine_create(&config, &prefill));
    EXPECT_OK(kvf_engine_load_transport(prefill, "fault+shm", NULL));
    tensors_of(from, tensors);
    EXPECT_OK(kvf_engine_register(prefill, tensors, TENSORS, sizeof *tensors));
    config = config_of(KVF_ROLE_DECODE);
    decode = engine_open(&config, &to);
    EXPECT_OK(kvf_room_open_sender(prefill, 7, NULL, &sender));
    EXPECT_OK(kvf_room_open_receiver(decode, kvf_engine_address(prefill), 7, NULL, &receiver));
    EXPECT_END(decode, receiver, KVF_ERR_NO_TRANSPORT);
    EXPECT_END(prefill, sender, KVF_ERR_NO_TRANSPORT);
    assert_non_null(strstr(report_of(decode, receiver).message, "fault+shm"));
    close_room(prefill, sender);
    close_room(decode, receiver);
    EXPECT_OK(kvf_engine_destroy(decode, LONG_MS));
    EXPECT_OK(kvf_engine_destroy(prefill, LONG_MS));
}

/* ------------------------------------------------------------------------------------------------------- closing */

static void a_handle_given_up_early_frees_its_room_by_itself(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
    await(it.prefill, sender, KVF_STATE_WAITING);
    EXPECT_OK(kvf_room_close_deferred(it.decode, receiver));
    EXPECT_END(it.prefill, sender, KVF_ERR_PEER_ABORTED);
    expect_message(it.prefill, sender, "closed before its end", 5);
    await_counter(it.decode, "open_handles", 0);
    EXPECT_ERROR(kvf_room_close(it.decode, receiver), KVF_ERR_STALE, "is stale");
    EXPECT_OK(kvf_room_close_deferred(it.prefill, sender));
    await_counter(it.prefill, "open_handles", 0);
    /* The id is free again on both sides. */
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
    EXPECT_OK(send_pages(it.prefill, sender, kPages, 3, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    EXPECT_END(it.prefill, sender, KVF_OK);
    EXPECT_OK(kvf_room_close_deferred(it.decode, receiver));
    EXPECT_OK(kvf_room_close_deferred(it.prefill, sender));
    pair_close(&it);
}

static void an_id_is_usable_again_right_after_its_close(void **state) {
    (void)state;
    pair it;
    pair_open(&it, NULL, NULL);
    for (uint32_t i = 0; i < 200; i++) {
        kvf_room sender, receiver;
        const uint32_t from = i % PAGES, to = (i * 7 + 3) % PAGES;
        open_rooms(&it, 7, &sender, &receiver);
        EXPECT_OK(accept_pages(it.decode, receiver, &to, 1));
        EXPECT_OK(send_pages(it.prefill, sender, &from, 1, KVF_CHUNK_LAST));
        EXPECT_END(it.decode, receiver, KVF_OK);
        expect_arrived(&it, &from, &to, 1);
        EXPECT_OK(kvf_room_close(it.decode, receiver));
        EXPECT_END(it.prefill, sender, KVF_OK);
        EXPECT_OK(kvf_room_close(it.prefill, sender));
    }
    pair_close(&it);
}

/* The last slot is on its way back for a moment after its room was closed: that is not "full". */
static void a_closed_rooms_slot_comes_back(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = NULL;
    config.max_rooms = 1;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    for (uint64_t id = 0; id < 100; id++) {
        kvf_room room;
        int opened, looks = 0;
        while ((opened = kvf_room_open_sender(engine, id, NULL, &room)) == KVF_ERR_AGAIN)
            look_again(&looks);
        EXPECT_OK(opened);
        EXPECT_OK(kvf_room_abort(engine, room, NULL));
        close_room(engine, room);
    }
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void an_engine_that_is_destroyed_ends_its_rooms_and_tells_the_peers(void **state) {
    (void)state;
    for (int prefill_first = 0; prefill_first < 2; prefill_first++) {
        pair it;
        kvf_room sender, receiver;
        pair_open(&it, NULL, NULL);
        open_rooms(&it, 7, &sender, &receiver);
        EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
        EXPECT_OK(send_pages(it.prefill, sender, kPages, 1, 0));
        await(it.decode, receiver, KVF_STATE_TRANSFERRING);
        EXPECT_OK(kvf_engine_destroy(prefill_first ? it.prefill : it.decode, LONG_MS));
        kvf_engine *const left = prefill_first ? it.decode : it.prefill;
        const kvf_room room = prefill_first ? receiver : sender;
        EXPECT_END(left, room, KVF_ERR_PEER_CLOSED);
        close_room(left, room);
        await_counter(left, "open_links", 0);
        await_counter(left, "open_connections", 0);
        EXPECT_OK(kvf_engine_destroy(left, LONG_MS));
    }
}

static void what_is_left_open_ends_with_the_engine(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    void *memory;
    pair_open(&it, NULL, NULL);
    EXPECT_OK(kvf_memory_alloc(it.prefill, 4096, &memory));
    for (uint64_t id = 0; id < 20; id++)
        open_rooms(&it, id, &sender, &receiver);
    EXPECT_OK(kvf_engine_destroy(it.decode, LONG_MS));
    EXPECT_OK(kvf_engine_destroy(it.prefill, LONG_MS));
}

/* ------------------------------------------------------------------------------------------------------ bootstrap */

static void rooms_find_their_prefill_by_the_bootstrap_server(void **state) {
    (void)state;
    kvf_bootstrap *server = NULL;
    EXPECT_OK(kvf_bootstrap_start(NULL, &server));
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    pair it;
    char url[96];
    snprintf(url, sizeof url, "http://%s/", kvf_bootstrap_address(server));
    config.bootstrap = url;
    pair_open(&it, &config, NULL);
    for (uint64_t id = 1; id <= 3; id++) {
        kvf_room sender, receiver, again;
        const char *place = id == 2 ? url : kvf_bootstrap_address(server);
        EXPECT_OK(kvf_room_open_receiver(it.decode, place, id, NULL, &receiver));
        EXPECT_ERROR(kvf_room_open_receiver(it.decode, url, id, NULL, &again), KVF_ERR_EXISTS, "is open already");
        EXPECT_OK(kvf_room_open_sender(it.prefill, id, NULL, &sender));
        EXPECT_OK(accept_pages(it.decode, receiver, kPages, 3));
        EXPECT_OK(send_pages(it.prefill, sender, kPages, 3, KVF_CHUNK_LAST));
        EXPECT_END(it.decode, receiver, KVF_OK);
        expect_arrived(&it, kPages, kPages, 3);
        close_room(it.decode, receiver);
        close_room(it.prefill, sender);
    }
    pair_close(&it);
    EXPECT_OK(kvf_bootstrap_stop(server));
}

static void a_bootstrap_servers_port_in_use_is_an_error(void **state) {
    (void)state;
    kvf_bootstrap *first = NULL, *second = NULL;
    kvf_bootstrap_config config;
    char address[64];
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    EXPECT_OK(kvf_bootstrap_start(&config, &first));
    snprintf(address, sizeof address, "%s", kvf_bootstrap_address(first));
    config.listen = address;
    EXPECT_ERROR(kvf_bootstrap_start(&config, &second), KVF_ERR_ADDRESS_IN_USE, address);
    assert_null(second);
    EXPECT_OK(kvf_bootstrap_stop(first));
    EXPECT_OK(kvf_bootstrap_start(&config, &second));
    EXPECT_OK(kvf_bootstrap_stop(second));
    config.listen = "nonsense";
    EXPECT_ERROR(kvf_bootstrap_start(&config, &second), KVF_ERR_INVALID, "nonsense");
    config.listen = "0.0.0.0:0";
    EXPECT_ERROR(kvf_bootstrap_start(&config, &second), KVF_ERR_INVALID, "KVF_TRUST_NETWORK=1");
    setenv("KVF_TRUST_NETWORK", "1", 1);
    EXPECT_OK(kvf_bootstrap_start(&config, &second));
    unsetenv("KVF_TRUST_NETWORK");
    EXPECT_OK(kvf_bootstrap_stop(second));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_abort_ends_both_sides_at_once),
        cmocka_unit_test(an_abort_keeps_255_bytes_of_its_reason_and_changes_no_end),
        cmocka_unit_test(a_peer_that_is_not_there_is_looked_for_until_the_deadline),
        cmocka_unit_test(the_report_of_a_room_that_looks_for_its_peer_says_why_it_still_does),
        cmocka_unit_test(a_place_that_can_not_be_is_refused),
        cmocka_unit_test(every_wait_of_a_room_has_its_deadline),
        cmocka_unit_test(an_offer_that_nobody_claims_is_answered),
        cmocka_unit_test(layouts_that_do_not_fit_fail_both_sides_with_field_and_values),
        cmocka_unit_test(engines_without_a_transport_in_common_fail_both_sides),
        cmocka_unit_test(a_handle_given_up_early_frees_its_room_by_itself),
        cmocka_unit_test(an_id_is_usable_again_right_after_its_close),
        cmocka_unit_test(a_closed_rooms_slot_comes_back),
        cmocka_unit_test(an_engine_that_is_destroyed_ends_its_rooms_and_tells_the_peers),
        cmocka_unit_test(what_is_left_open_ends_with_the_engine),
        cmocka_unit_test(rooms_find_their_prefill_by_the_bootstrap_server),
        cmocka_unit_test(a_bootstrap_servers_port_in_use_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
