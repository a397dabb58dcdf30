/* The ways to learn how rooms go: poll, poll of many, wait, events and their descriptor. */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

static const uint32_t kPage = 4;

static int readable(kvf_engine *engine, int timeout_ms) {
    struct pollfd polled = {kvf_engine_event_fd(engine), POLLIN, 0};
    assert_true(polled.fd >= 0);
    return poll(&polled, 1, timeout_ms);
}

/* Takes events until the room's state is this one. */
static void await_event(kvf_engine *engine, kvf_room room, uint32_t state) {
    for (;;) {
        kvf_event events[4];
        assert_int_equal(readable(engine, LONG_MS), 1);
        const int count = kvf_engine_events(engine, events, 4, sizeof *events, 0);
        assert_in_range(count, 0, 4);
        for (int i = 0; i < count; i++) {
            assert_int_equal(events[i].kind, KVF_EVENT_ROOM);
            if (events[i].room.value == room.value && events[i].state == state)
                return;
        }
    }
}

/* Until the descriptor says that there are none. */
static void take_all(kvf_engine *engine) {
    for (int looks = 0; readable(engine, 0) != 0; look_again(&looks)) {
        kvf_event event;
        assert_in_range(kvf_engine_events(engine, &event, 1, sizeof event, 0), 0, 1);
    }
}

static void events_tell_of_every_end_and_the_descriptor_of_events(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    kvf_event event;
    pair_open(&it, NULL, NULL);
    assert_int_equal(readable(it.decode, 0), 0);
    assert_int_equal(kvf_engine_events(it.decode, &event, 1, sizeof event, 0), 0);
    open_rooms(&it, 7, &sender, &receiver);
    await_event(it.decode, receiver, KVF_STATE_WAITING);
    EXPECT_OK(accept_pages(it.decode, receiver, &kPage, 1));
    await_event(it.prefill, sender, KVF_STATE_WAITING);
    EXPECT_OK(send_pages(it.prefill, sender, &kPage, 1, KVF_CHUNK_LAST));
    await_event(it.prefill, sender, KVF_STATE_SUCCESS);
    await_event(it.decode, receiver, KVF_STATE_SUCCESS);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    /* The last change of a room may have been seen with the one before, and be told once more. */
    take_all(it.decode);
    take_all(it.prefill);
    pair_close(&it);
}

static void an_event_has_the_rooms_state_of_now(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = NULL;
    kvf_room room;
    kvf_event event;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_OK(kvf_room_open_sender(engine, 99, NULL, &room));
    EXPECT_OK(kvf_room_abort(engine, room, NULL));
    assert_int_equal(kvf_engine_events(engine, &event, 1, sizeof event, LONG_MS), 1);
    assert_int_equal(event.kind, KVF_EVENT_ROOM);
    assert_int_equal(event.state, KVF_STATE_FAILED);
    assert_int_equal(event.flags, KVF_ROOM_QUIESCED);
    assert_int_equal(event.code, KVF_ERR_ABORTED);
    assert_int_equal(event.room_id, 99);
    assert_true(event.room.value == room.value);
    close_room(engine, room);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void a_wait_for_events_ends_with_its_time(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = NULL;
    kvf_event event;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    assert_int_equal(kvf_engine_events(engine, &event, 1, sizeof event, 5), 0);
    assert_int_equal(kvf_engine_events(engine, NULL, 0, 0, LONG_MS), 0);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void events_that_do_not_fit_come_next_time(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = NULL;
    kvf_room rooms[20];
    int seen = 0;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    for (uint64_t id = 0; id < 20; id++) {
        EXPECT_OK(kvf_room_open_sender(engine, id, NULL, &rooms[id]));
        EXPECT_OK(kvf_room_abort(engine, rooms[id], NULL));
    }
    for (int i = 0; i < 20; i++)
        EXPECT_END(engine, rooms[i], KVF_ERR_ABORTED);
    while (seen < 20) {
        kvf_event events[3];
        const int count = kvf_engine_events(engine, events, 3, sizeof *events, LONG_MS);
        assert_in_range(count, 1, 3);
        seen += count;
    }
    assert_int_equal(readable(engine, 0), 0);
    for (int i = 0; i < 20; i++)
        close_room(engine, rooms[i]);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void events_of_closed_rooms_are_not_told(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = NULL;
    kvf_room room;
    kvf_event event;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &room));
    EXPECT_OK(kvf_room_abort(engine, room, NULL));
    assert_int_equal(readable(engine, LONG_MS), 1);
    close_room(engine, room);
    assert_int_equal(kvf_engine_events(engine, &event, 1, sizeof event, 0), 0);
    assert_int_equal(readable(engine, 0), 0);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

/* ------------------------------------------------------------------------------------------------- poll and wait */

static void many_rooms_are_polled_in_one_call(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = NULL;
    kvf_room rooms[4] = {{0}};
    uint32_t states[4];
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_OK(kvf_room_open_sender(engine, 1, NULL, &rooms[0]));
    EXPECT_OK(kvf_room_open_sender(engine, 2, NULL, &rooms[2]));
    EXPECT_OK(kvf_room_open_sender(engine, 3, NULL, &rooms[3]));
    EXPECT_OK(kvf_room_abort(engine, rooms[2], NULL));
    EXPECT_OK(kvf_room_abort(engine, rooms[3], NULL));
    EXPECT_END(engine, rooms[2], KVF_ERR_ABORTED);
    close_room(engine, rooms[3]);
    EXPECT_ERROR(kvf_room_poll_many(engine, rooms, states, 4), KVF_ERR_STALE,
                 "room handle 0x0 was not given by this engine");
    assert_int_equal(states[0], KVF_STATE_BOOTSTRAPPING);
    assert_int_equal(states[1], KVF_POLL_STALE);
    assert_int_equal(states[2], KVF_STATE_FAILED | KVF_ROOM_QUIESCED << 8);
    assert_int_equal(states[3], KVF_POLL_STALE);
    EXPECT_OK(kvf_room_poll_many(engine, rooms, states, 1));
    EXPECT_OK(kvf_room_abort(engine, rooms[0], NULL));
    close_room(engine, rooms[0]);
    close_room(engine, rooms[2]);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void a_wait_that_is_too_short_tells_the_state(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = NULL;
    kvf_room room;
    kvf_room_status status;
    memset(&status, 0xab, sizeof status);
    status.struct_size = sizeof status;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &room));
    EXPECT_ERROR(kvf_room_wait(engine, room, 5, &status), KVF_ERR_TIMEOUT, "room 7 was not at its end after 5 ms");
    assert_int_equal(status.state, KVF_STATE_BOOTSTRAPPING);
    assert_int_equal(status.code, KVF_OK);
    EXPECT_ERROR(kvf_room_wait(engine, room, 0, NULL), KVF_ERR_TIMEOUT, "after 0 ms");
    EXPECT_OK(kvf_room_abort(engine, room, NULL));
    close_room(engine, room);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

typedef struct waiter {
    kvf_engine *engine;
    kvf_room room;
    int result;
} waiter;

static void *wait_for_end(void *argument) {
    waiter *it = argument;
    it->result = kvf_room_wait(it->engine, it->room, LONG_MS, NULL);
    return NULL;
}

static void every_waiter_learns_of_the_end(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine = NULL;
    kvf_room room;
    pthread_t threads[4];
    waiter waiters[4];
    EXPECT_OK(kvf_engine_create(&config, &engine));
    for (int round = 0; round < 20; round++) {
        EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &room));
        for (int i = 0; i < 4; i++) {
            waiters[i].engine = engine;
            waiters[i].room = room;
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_end, &waiters[i]), 0);
        }
        /* In odd rounds the room is gone with its end; who was late finds the handle stale. */
        if (round % 2 == 0)
            EXPECT_OK(kvf_room_abort(engine, room, NULL));
        else
            EXPECT_OK(kvf_room_close_deferred(engine, room));
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            if (waiters[i].result != KVF_OK)
                assert_true(round % 2 != 0 && waiters[i].result == KVF_ERR_STALE);
        }
        if (round % 2 == 0)
            close_room(engine, room);
        await_counter(engine, "open_handles", 0);
    }
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_tell_of_every_end_and_the_descriptor_of_events),
        cmocka_unit_test(an_event_has_the_rooms_state_of_now),
        cmocka_unit_test(a_wait_for_events_ends_with_its_time),
        cmocka_unit_test(events_that_do_not_fit_come_next_time),
        cmocka_unit_test(events_of_closed_rooms_are_not_told),
        cmocka_unit_test(many_rooms_are_polled_in_one_call),
        cmocka_unit_test(a_wait_that_is_too_short_tells_the_state),
        cmocka_unit_test(every_waiter_learns_of_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
