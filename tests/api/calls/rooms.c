/* Rooms between two engines, from open to close: what moves, what is reported, what is refused. */
#define _GNU_SOURCE
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const uint32_t kFrom[] = {1, 2, 3, 9, 8, 40}, kTo[] = {10, 11, 12, 5, 6, 63};
enum { COUNT = sizeof kFrom / sizeof *kFrom };

static void a_room_carries_its_pages_and_no_others(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, kTo, COUNT));
    EXPECT_OK(send_pages(it.prefill, sender, kFrom, COUNT, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    EXPECT_END(it.prefill, sender, KVF_OK);
    assert_int_equal(status_of(it.decode, receiver).flags, KVF_ROOM_QUIESCED);
    expect_arrived(&it, kFrom, kTo, COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            memset(page_at(it.to, layer, kTo[i]), 0, PAGE_BYTES);
    expect_untouched(&it);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    pair_close(&it);
}

static void states_come_in_their_order_and_reports_tell_the_story(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    kvf_receiver_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.prefix_tokens = 128;
    pair_open(&it, NULL, NULL);
    EXPECT_OK(kvf_room_open_sender(it.prefill, 7, NULL, &sender));
    assert_int_equal(status_of(it.prefill, sender).state, KVF_STATE_BOOTSTRAPPING);
    EXPECT_OK(kvf_room_open_receiver(it.decode, kvf_engine_address(it.prefill), 7, &options, &receiver));
    await(it.decode, receiver, KVF_STATE_WAITING);
    assert_int_equal(status_of(it.prefill, sender).state, KVF_STATE_BOOTSTRAPPING);
    EXPECT_OK(accept_pages(it.decode, receiver, kTo, COUNT));
    await(it.prefill, sender, KVF_STATE_WAITING);
    assert_int_equal(report_of(it.prefill, sender).prefix_tokens, 128);
    EXPECT_OK(send_pages(it.prefill, sender, kFrom, 2, 0));
    await(it.prefill, sender, KVF_STATE_TRANSFERRING);
    await(it.decode, receiver, KVF_STATE_TRANSFERRING);
    EXPECT_OK(send_pages(it.prefill, sender, kFrom + 2, COUNT - 2, KVF_CHUNK_LAST));
    EXPECT_END(it.prefill, sender, KVF_OK);
    EXPECT_END(it.decode, receiver, KVF_OK);
    expect_arrived(&it, kFrom, kTo, COUNT);

    const kvf_report sent = report_of(it.prefill, sender), received = report_of(it.decode, receiver);
    assert_int_equal(sent.state, KVF_STATE_SUCCESS);
    assert_int_equal(sent.flags, KVF_ROOM_QUIESCED);
    assert_int_equal(sent.code, KVF_OK);
    assert_int_equal(sent.room_id, 7);
    assert_int_equal(sent.bytes, COUNT * LAYERS * PAGE_BYTES);
    assert_int_equal(sent.rank, -1);
    assert_string_equal(sent.transport, "shm");
    assert_string_equal(sent.message, "");
    assert_true(sent.opened_ns != 0 && sent.opened_ns <= sent.waiting_ns && sent.waiting_ns <= sent.queued_ns);
    assert_true(sent.queued_ns <= sent.posted_ns && sent.posted_ns <= sent.landed_ns);
    assert_true(sent.landed_ns <= sent.ended_ns && sent.ended_ns == sent.quiesced_ns);
    assert_int_equal(received.bytes, sent.bytes);
    assert_int_equal(received.segments, sent.segments);
    assert_int_equal(received.prefix_tokens, 128);
    assert_string_equal(received.transport, "shm");
    assert_true(received.peer_instance != 0 && sent.peer_instance != 0);
    assert_true(received.peer_instance != sent.peer_instance);
    assert_true(received.queued_ns != 0 && received.queued_ns <= received.ended_ns);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    assert_int_equal(counter_of(it.prefill, "rooms_opened"), 1);
    assert_int_equal(counter_of(it.prefill, "rooms_succeeded"), 1);
    assert_int_equal(counter_of(it.prefill, "bytes"), sent.bytes);
    assert_int_equal(counter_of(it.decode, "rooms_succeeded"), 1);
    pair_close(&it);
}

static void groups_and_layers_go_their_own_ways(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    const uint32_t aux_from[] = {3}, aux_to[] = {6};
    const kvf_index_list accepted[] = {{0, COUNT, kTo}, {AUX, 1, aux_to}}, kv = {0, COUNT, kFrom},
                         aux = {AUX, 1, aux_from};
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.lists = &kv;
    chunk.list_count = 1;
    chunk.list_stride = sizeof kv;
    chunk.layer_count = 1;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(kvf_room_accept(it.decode, receiver, accepted, 2, sizeof *accepted));
    for (chunk.layer_begin = 0; chunk.layer_begin < LAYERS; chunk.layer_begin++)
        EXPECT_OK(kvf_room_send(it.prefill, sender, &chunk));
    chunk.lists = &aux;
    chunk.layer_begin = chunk.layer_count = 0;
    chunk.flags = KVF_CHUNK_LAST;
    EXPECT_OK(kvf_room_send(it.prefill, sender, &chunk));
    EXPECT_END(it.decode, receiver, KVF_OK);
    expect_arrived(&it, kFrom, kTo, COUNT);
    assert_memory_equal(aux_at(it.to, 6), aux_at(it.from, 3), AUX_BYTES);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    pair_close(&it);
}

static void a_group_without_a_tensor_in_the_chunks_layers_is_refused(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    unsigned char *memory;
    kvf_engine *engine = engine_open(&config, &memory);
    kvf_room sender;
    const uint32_t aux_page[] = {3};
    const kvf_index_list lists[] = {{0, COUNT, kFrom}, {AUX, 1, aux_page}};
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.lists = lists;
    chunk.list_count = 2;
    chunk.list_stride = sizeof *lists;
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &sender));
    chunk.layer_begin = 1; /* the aux tensor is of layer 0 */
    chunk.layer_count = UINT32_MAX;
    EXPECT_ERROR(kvf_room_send(engine, sender, &chunk), KVF_ERR_GROUP,
                 "group 1 has no tensor in layers [1, 4294967296)");
    chunk.layer_begin = LAYERS;
    chunk.layer_count = 1;
    EXPECT_ERROR(kvf_room_send(engine, sender, &chunk), KVF_ERR_GROUP, "group 0 has no tensor in layers [2, 3)");
    chunk.layer_begin = 0;
    EXPECT_OK(kvf_room_send(engine, sender, &chunk));
    chunk.layer_begin = LAYERS;
    chunk.layer_count = 0; /* all */
    EXPECT_OK(kvf_room_send(engine, sender, &chunk));
    assert_int_equal(status_of(engine, sender).state, KVF_STATE_BOOTSTRAPPING);
    EXPECT_OK(kvf_room_abort(engine, sender, NULL));
    close_room(engine, sender);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

/* ThreadSanitizer knows no order through an eventfd that one side only waits for. */
__attribute__((no_sanitize("thread"))) static void fill_unseen(unsigned char *page, unsigned char value) {
    for (volatile unsigned char *at = page; at != page + PAGE_BYTES; ++at)
        *at = value;
}

static void a_fence_holds_its_chunk(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    const int fence = eventfd(0, EFD_CLOEXEC);
    const kvf_index_list list = {0, COUNT, kFrom};
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = KVF_CHUNK_LAST;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    chunk.fence_kind = KVF_FENCE_EVENTFD;
    chunk.fence_fd = fence;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, kTo, COUNT));
    EXPECT_OK(kvf_room_send(it.prefill, sender, &chunk));
    await(it.prefill, sender, KVF_STATE_WAITING);
    /* Whatever the engine does in the meantime, it does not read the pages. */
    kvf_room other_sender, other_receiver;
    open_rooms(&it, 8, &other_sender, &other_receiver);
    EXPECT_OK(accept_pages(it.decode, other_receiver, kTo, 1));
    EXPECT_OK(send_pages(it.prefill, other_sender, kFrom, 1, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, other_receiver, KVF_OK);
    assert_int_equal(status_of(it.prefill, sender).state, KVF_STATE_WAITING);
    fill_unseen(page_at(it.from, 0, kFrom[0]), 0x77);
    assert_int_equal(eventfd_write(fence, 1), 0);
    close(fence);
    EXPECT_END(it.decode, receiver, KVF_OK);
    expect_arrived(&it, kFrom, kTo, COUNT);
    close_room(it.decode, other_receiver);
    close_room(it.prefill, other_sender);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    pair_close(&it);
}

/* ------------------------------------------------------------------------------------------------ what is refused */

static void lists_that_can_not_be_are_refused_and_nothing_moves(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    const uint32_t outside[] = {1, 2, PAGES}, fine[] = {1, 2, 3};
    const kvf_index_list no_group = {9, 3, fine}, no_indices = {0, 3, NULL};
    const kvf_index_list twice[] = {{0, 1, fine}, {AUX, 1, fine}, {0, 1, fine}};
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = KVF_CHUNK_LAST;
    chunk.list_count = 1;
    chunk.list_stride = sizeof no_group;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);

    const char *page =
        "page 64 of group 0, at 2 in its list, is outside tensor (group 0, layer 0, part 0), which has 64 pages";
    EXPECT_ERROR(accept_pages(it.decode, receiver, outside, 3), KVF_ERR_PAGE, page);
    EXPECT_ERROR(send_pages(it.prefill, sender, outside, 3, KVF_CHUNK_LAST), KVF_ERR_PAGE, page);
    EXPECT_ERROR(kvf_room_accept(it.decode, receiver, &no_group, 1, sizeof no_group), KVF_ERR_GROUP,
                 "list 0 is of group 9, of which no tensor is registered");
    chunk.lists = &no_group;
    EXPECT_ERROR(kvf_room_send(it.prefill, sender, &chunk), KVF_ERR_GROUP, "list 0 is of group 9");
    EXPECT_ERROR(kvf_room_accept(it.decode, receiver, &no_indices, 1, sizeof no_indices), KVF_ERR_INVALID,
                 "list 0, of group 0: indices is NULL and count 3");
    EXPECT_ERROR(kvf_room_accept(it.decode, receiver, twice, 3, sizeof *twice), KVF_ERR_DUPLICATE,
                 "list 2 is of group 0, as is an earlier one");
    EXPECT_ERROR(kvf_room_accept(it.decode, receiver, NULL, 1, sizeof *twice), KVF_ERR_INVALID, "lists is NULL");

    /* The rooms are as they were. */
    EXPECT_OK(accept_pages(it.decode, receiver, fine, 3));
    await(it.prefill, sender, KVF_STATE_WAITING);
    expect_untouched(&it);
    EXPECT_OK(send_pages(it.prefill, sender, fine, 3, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    expect_arrived(&it, fine, fine, 3);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    pair_close(&it);
}

/* Padding: a page may be named more often than the group has pages. */
static void a_list_may_be_longer_than_its_group_and_no_longer_than_an_offer(void **state) {
    (void)state;
    enum { PADDED = 200, TOO_MANY = (1 << 24) + 1 };
    uint32_t *pages = calloc(TOO_MANY, sizeof *pages);
    const kvf_index_list too_long = {0, TOO_MANY, pages};
    pair it;
    kvf_room sender, receiver;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_ERROR(kvf_room_accept(it.decode, receiver, &too_long, 1, sizeof too_long), KVF_ERR_INVALID,
                 "16777217 pages in all lists; expected at most 16777216");
    EXPECT_OK(accept_pages(it.decode, receiver, pages, PADDED));
    EXPECT_OK(send_pages(it.prefill, sender, pages, PADDED, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    EXPECT_END(it.prefill, sender, KVF_OK);
    expect_arrived(&it, pages, pages, 1);
    EXPECT_OK(kvf_room_close(it.decode, receiver));
    EXPECT_OK(kvf_room_close(it.prefill, sender));
    pair_close(&it);
    free(pages);
}

static void lists_of_another_length_than_offered_fail_both_sides(void **state) {
    (void)state;
    for (uint32_t sent = COUNT - 1; sent <= COUNT + 1; sent += 2) {
        pair it;
        kvf_room sender, receiver;
        const uint32_t from[COUNT + 1] = {0};
        char sentence[128];
        snprintf(sentence, sizeof sentence,
                 sent < COUNT ? "the last chunk is here with %u pages of group 0"
                              : "a chunk has %u pages of group 0 behind the first 0",
                 sent);
        pair_open(&it, NULL, NULL);
        open_rooms(&it, 7, &sender, &receiver);
        EXPECT_OK(accept_pages(it.decode, receiver, kTo, COUNT));
        EXPECT_OK(send_pages(it.prefill, sender, from, sent, KVF_CHUNK_LAST));
        EXPECT_END(it.prefill, sender, KVF_ERR_LENGTH);
        EXPECT_END(it.decode, receiver, KVF_ERR_LENGTH);
        assert_non_null(strstr(report_of(it.prefill, sender).message, sentence));
        assert_non_null(strstr(report_of(it.decode, receiver).message, sentence));
        assert_int_equal(report_of(it.decode, receiver).rank, 3);
        close_room(it.decode, receiver);
        close_room(it.prefill, sender);
        expect_untouched(&it);
        pair_close(&it);
    }
}

static void calls_that_do_not_fit_the_room_are_refused(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver, other;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_ERROR(kvf_room_open_sender(it.prefill, 7, NULL, &other), KVF_ERR_EXISTS,
                 "room 7 is open already as a sender");
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, kvf_engine_address(it.prefill), 7, NULL, &other), KVF_ERR_EXISTS,
                 "room 7 is open already as a receiver at tcp://127.0.0.1:");
    EXPECT_ERROR(kvf_room_open_sender(it.decode, 8, NULL, &other), KVF_ERR_STATE, "this engine's role is decode");
    EXPECT_ERROR(kvf_room_open_receiver(it.prefill, "tcp://127.0.0.1:1", 8, NULL, &other), KVF_ERR_STATE,
                 "this engine's role is prefill");
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, NULL, 8, NULL, &other), KVF_ERR_INVALID, "prefill is NULL");
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, "", 8, NULL, &other), KVF_ERR_INVALID, "prefill is empty");
    EXPECT_ERROR(accept_pages(it.prefill, sender, kTo, COUNT), KVF_ERR_STATE,
                 "room 7 is a sender: it does not accept pages");
    EXPECT_ERROR(send_pages(it.decode, receiver, kTo, COUNT, 0), KVF_ERR_STATE,
                 "room 7 is a receiver: it does not send");
    EXPECT_ERROR(kvf_room_close(it.prefill, sender), KVF_ERR_BUSY, "room 7 is not at its end");
    EXPECT_OK(accept_pages(it.decode, receiver, kTo, COUNT));
    EXPECT_ERROR(accept_pages(it.decode, receiver, kTo, COUNT), KVF_ERR_STATE, "room 7 has accepted its pages before");
    EXPECT_OK(send_pages(it.prefill, sender, kFrom, COUNT, KVF_CHUNK_LAST));
    const int after = send_pages(it.prefill, sender, kFrom, 1, 0);
    assert_true(after == KVF_ERR_AFTER_LAST || after == KVF_ERR_STATE);
    EXPECT_END(it.decode, receiver, KVF_OK);
    EXPECT_END(it.prefill, sender, KVF_OK);
    EXPECT_ERROR(send_pages(it.prefill, sender, kFrom, 1, 0), KVF_ERR_STATE, "room 7 is at its end: Success");
    EXPECT_ERROR(accept_pages(it.decode, receiver, kTo, COUNT), KVF_ERR_STATE, "room 7 is at its end: Success");
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    pair_close(&it);
}

static void a_chunk_after_the_last_is_refused(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_engine *engine;
    unsigned char *memory;
    kvf_room sender;
    engine = engine_open(&config, &memory);
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &sender));
    EXPECT_OK(send_pages(engine, sender, kFrom, 1, KVF_CHUNK_LAST));
    EXPECT_ERROR(send_pages(engine, sender, kFrom, 1, 0), KVF_ERR_AFTER_LAST, "room 7 has had its last chunk");
    EXPECT_ERROR(send_pages(engine, sender, kFrom, 1, KVF_CHUNK_LAST), KVF_ERR_AFTER_LAST,
                 "room 7 has had its last chunk");
    EXPECT_OK(kvf_room_abort(engine, sender, NULL));
    close_room(engine, sender);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void every_call_refuses(kvf_engine *engine, kvf_room room, int status, const char *text) {
    kvf_room_status polled;
    kvf_report report;
    memset(&polled, 0, sizeof polled);
    memset(&report, 0, sizeof report);
    polled.struct_size = sizeof polled;
    report.struct_size = sizeof report;
    EXPECT_ERROR(kvf_room_poll(engine, room, &polled), status, text);
    EXPECT_ERROR(kvf_room_wait(engine, room, LONG_MS, &polled), status, text);
    EXPECT_ERROR(kvf_room_report(engine, room, &report), status, text);
    EXPECT_ERROR(kvf_room_abort(engine, room, "no"), status, text);
    EXPECT_ERROR(kvf_room_close(engine, room), status, text);
    EXPECT_ERROR(kvf_room_close_deferred(engine, room), status, text);
    EXPECT_ERROR(accept_pages(engine, room, kTo, 1), status, text);
    EXPECT_ERROR(send_pages(engine, room, kTo, 1, 0), status, text);
}

static void stale_and_foreign_handles_are_errors_and_never_another_room(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver, next;
    const kvf_room zero = {0};
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    every_call_refuses(it.prefill, zero, KVF_ERR_FOREIGN, "room handle 0x0 was not given by this engine");
    every_call_refuses(it.prefill, receiver, KVF_ERR_FOREIGN, "was not given by this engine");
    every_call_refuses(it.decode, sender, KVF_ERR_FOREIGN, "was not given by this engine");
    EXPECT_OK(kvf_room_abort(it.prefill, sender, NULL));
    EXPECT_OK(kvf_room_abort(it.decode, receiver, NULL));
    close_room(it.prefill, sender);
    close_room(it.decode, receiver);
    every_call_refuses(it.prefill, sender, KVF_ERR_STALE, "is stale");
    EXPECT_OK(kvf_room_open_sender(it.prefill, 7, NULL, &next));
    every_call_refuses(it.prefill, sender, KVF_ERR_STALE, "is stale");
    assert_int_not_equal(next.value, sender.value);
    assert_int_equal(status_of(it.prefill, next).state, KVF_STATE_BOOTSTRAPPING);
    EXPECT_OK(kvf_room_abort(it.prefill, next, NULL));
    close_room(it.prefill, next);
    pair_close(&it);
}

static void fences_that_can_not_be_are_refused(void **state) {
    (void)state;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    unsigned char *memory;
    kvf_engine *engine = engine_open(&config, &memory);
    kvf_room sender;
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    EXPECT_OK(kvf_room_open_sender(engine, 7, NULL, &sender));
    chunk.fence_kind = 9;
    EXPECT_ERROR(kvf_room_send(engine, sender, &chunk), KVF_ERR_UNSUPPORTED, "fence_kind is 9");
    chunk.fence_kind = KVF_FENCE_EVENTFD;
    chunk.fence_fd = -1;
    EXPECT_ERROR(kvf_room_send(engine, sender, &chunk), KVF_ERR_INVALID, "fence_fd is -1");
    chunk.fence_kind = KVF_FENCE_NONE;
    chunk.fence_fd = 5;
    EXPECT_ERROR(kvf_room_send(engine, sender, &chunk), KVF_ERR_INVALID,
                 "fence_fd is 5 and fence_kind KVF_FENCE_NONE; expected 0 or -1");
    chunk.fence_fd = -1;
    EXPECT_OK(kvf_room_send(engine, sender, &chunk));
    chunk.fence_fd = 0;
    EXPECT_OK(kvf_room_send(engine, sender, &chunk));
    chunk.fence = &chunk;
    EXPECT_ERROR(kvf_room_send(engine, sender, &chunk), KVF_ERR_UNSUPPORTED, "expected NULL");
    chunk.fence = NULL;
    chunk.flags = 6;
    EXPECT_ERROR(kvf_room_send(engine, sender, &chunk), KVF_ERR_UNSUPPORTED, "flags is 0x6");
    EXPECT_OK(kvf_room_abort(engine, sender, NULL));
    close_room(engine, sender);
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

/* Data-parallel ranks behind one bootstrap server are peers of their own. */
static void an_id_is_open_once_for_each_rank_that_it_may_be_of(void **state) {
    (void)state;
    pair it;
    kvf_room rooms[4], again;
    kvf_receiver_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    pair_open(&it, NULL, NULL);
    EXPECT_OK(kvf_room_open_receiver(it.decode, "127.0.0.1:1", 7, NULL, &rooms[0]));
    options.dp_rank = 5; /* of no meaning here */
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, "127.0.0.1:1", 7, &options, &again), KVF_ERR_EXISTS,
                 "room 7 is open already as a receiver at 127.0.0.1:1");
    options.dp_choice = KVF_DP_GIVEN;
    EXPECT_OK(kvf_room_open_receiver(it.decode, "127.0.0.1:1", 7, &options, &rooms[1]));
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, "127.0.0.1:1", 7, &options, &again), KVF_ERR_EXISTS,
                 "at 127.0.0.1:1 (dp rank 5)");
    options.dp_rank = 6;
    EXPECT_OK(kvf_room_open_receiver(it.decode, "127.0.0.1:1", 7, &options, &rooms[2]));
    options.dp_choice = KVF_DP_ASK;
    EXPECT_OK(kvf_room_open_receiver(it.decode, "127.0.0.1:1", 7, &options, &rooms[3]));
    for (size_t i = 0; i < 4; i++) {
        EXPECT_OK(kvf_room_abort(it.decode, rooms[i], NULL));
        close_room(it.decode, rooms[i]);
    }
    pair_close(&it);
}

static void options_of_rooms_are_checked(void **state) {
    (void)state;
    pair it;
    kvf_room room;
    kvf_sender_options sender;
    kvf_receiver_options receiver;
    memset(&sender, 0, sizeof sender);
    memset(&receiver, 0, sizeof receiver);
    sender.struct_size = sizeof sender;
    receiver.struct_size = sizeof receiver;
    pair_open(&it, NULL, NULL);
    sender.receivers = 65;
    EXPECT_ERROR(kvf_room_open_sender(it.prefill, 7, &sender, &room), KVF_ERR_INVALID,
                 "receivers is 65; expected at most 64");
    sender.receivers = 1;
    sender.priority = 2;
    EXPECT_ERROR(kvf_room_open_sender(it.prefill, 7, &sender, &room), KVF_ERR_UNSUPPORTED, "priority is 2");
    receiver.dp_choice = 3;
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, "a:1", 7, &receiver, &room), KVF_ERR_INVALID, "dp_choice is 3");
    receiver.dp_choice = KVF_DP_BY_ROOM;
    receiver.priority = 2;
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, "a:1", 7, &receiver, &room), KVF_ERR_UNSUPPORTED, "priority is 2");
    receiver.priority = 0;
    receiver.reserved = 4;
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, "a:1", 7, &receiver, &room), KVF_ERR_UNSUPPORTED, "reserved 4");
    EXPECT_ERROR(kvf_room_open_sender(it.prefill, 7, NULL, NULL), KVF_ERR_INVALID, "room is NULL");
    EXPECT_ERROR(kvf_room_open_receiver(it.decode, "a:1", 7, NULL, NULL), KVF_ERR_INVALID, "room is NULL");
    pair_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_may_be_longer_than_its_group_and_no_longer_than_an_offer),
        cmocka_unit_test(a_room_carries_its_pages_and_no_others),
        cmocka_unit_test(states_come_in_their_order_and_reports_tell_the_story),
        cmocka_unit_test(groups_and_layers_go_their_own_ways),
        cmocka_unit_test(a_group_without_a_tensor_in_the_chunks_layers_is_refused),
        cmocka_unit_test(a_fence_holds_its_chunk),
        cmocka_unit_test(lists_that_can_not_be_are_refused_and_nothing_moves),
        cmocka_unit_test(lists_of_another_length_than_offered_fail_both_sides),
        cmocka_unit_test(calls_that_do_not_fit_the_room_are_refused),
        cmocka_unit_test(a_chunk_after_the_last_is_refused),
        cmocka_unit_test(stale_and_foreign_handles_are_errors_and_never_another_room),
        cmocka_unit_test(fences_that_can_not_be_are_refused),
        cmocka_unit_test(options_of_rooms_are_checked),
        cmocka_unit_test(an_id_is_open_once_for_each_rank_that_it_may_be_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
