/* A room that several decode engines claim: all of them get its pages, or none does. */
#include "rig.h"

#include <string.h>

static const uint32_t kFrom[] = {1, 2, 3}, kTo[] = {10, 11, 12};
enum { COUNT = sizeof kFrom / sizeof *kFrom };

typedef struct trio {
    pair it;
    kvf_engine *other; /* a second decode engine */
    unsigned char *other_memory;
    kvf_room sender, first, second;
} trio;

static void trio_open(trio *all) {
    const kvf_engine_config decode = config_of(KVF_ROLE_DECODE);
    kvf_sender_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.receivers = 2;
    pair_open(&all->it, NULL, NULL);
    all->other = engine_open(&decode, &all->other_memory);
    const char *address = kvf_engine_address(all->it.prefill);
    EXPECT_OK(kvf_room_open_sender(all->it.prefill, 7, &options, &all->sender));
    EXPECT_OK(kvf_room_open_receiver(all->it.decode, address, 7, NULL, &all->first));
    EXPECT_OK(kvf_room_open_receiver(all->other, address, 7, NULL, &all->second));
}

static void trio_close(trio *all) {
    close_room(all->it.prefill, all->sender);
    close_room(all->it.decode, all->first);
    close_room(all->other, all->second);
    EXPECT_OK(kvf_engine_destroy(all->other, LONG_MS));
    pair_close(&all->it);
}

static void every_receiver_gets_the_pages(void **state) {
    (void)state;
    trio all;
    trio_open(&all);
    EXPECT_OK(accept_pages(all.it.decode, all.first, kTo, COUNT));
    EXPECT_OK(accept_pages(all.other, all.second, kTo, COUNT));
    EXPECT_OK(send_pages(all.it.prefill, all.sender, kFrom, COUNT, KVF_CHUNK_LAST));
    EXPECT_END(all.it.decode, all.first, KVF_OK);
    EXPECT_END(all.other, all.second, KVF_OK);
    EXPECT_END(all.it.prefill, all.sender, KVF_OK);
    expect_arrived(&all.it, kFrom, kTo, COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_memory_equal(page_at(all.other_memory, 0, kTo[i]), page_at(all.it.from, 0, kFrom[i]), PAGE_BYTES);
    trio_close(&all);
}

/* Whichever of the two offers first. */
static void a_receiver_that_accepts_nothing_beside_one_with_pages_fails_the_room(void **state) {
    (void)state;
    for (int empty_first = 0; empty_first <= 1; empty_first++) {
        trio all;
        trio_open(&all);
        EXPECT_OK(send_pages(all.it.prefill, all.sender, kFrom, COUNT, KVF_CHUNK_LAST));
        if (empty_first)
            EXPECT_OK(accept_pages(all.other, all.second, NULL, 0));
        EXPECT_OK(accept_pages(all.it.decode, all.first, kTo, COUNT));
        if (!empty_first)
            EXPECT_OK(kvf_room_accept(all.other, all.second, NULL, 0, 0));
        EXPECT_END(all.it.prefill, all.sender, KVF_ERR_LENGTH);
        EXPECT_END(all.it.decode, all.first, KVF_ERR_LENGTH);
        EXPECT_END(all.other, all.second, KVF_ERR_LENGTH);
        expect_untouched(&all.it);
        trio_close(&all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_receiver_gets_the_pages),
        cmocka_unit_test(a_receiver_that_accepts_nothing_beside_one_with_pages_fails_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
