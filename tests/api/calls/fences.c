/* Fences that chunks wait for and that will never fire. */
#define _GNU_SOURCE
#include "rig.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint32_t kFrom[] = {1}, kTo[] = {10};

static void send_behind(const pair *it, kvf_room sender, int fence) {
    const kvf_index_list list = {0, 1, kFrom};
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = KVF_CHUNK_LAST;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    chunk.fence_kind = KVF_FENCE_EVENTFD;
    chunk.fence_fd = fence;
    EXPECT_OK(kvf_room_send(it->prefill, sender, &chunk));
    close(fence);
}

static void expect_broken(const pair *it, kvf_room sender, kvf_room receiver, const char *text) {
    EXPECT_END(it->prefill, sender, KVF_ERR_INVALID);
    EXPECT_END(it->decode, receiver, KVF_ERR_INVALID);
    assert_non_null(strstr(report_of(it->prefill, sender).message, text));
    expect_untouched(it);
    close_room(it->decode, receiver);
    close_room(it->prefill, sender);
}

static void a_fence_of_a_kind_that_is_never_waited_for_fails_the_room(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, kTo, 1));
    send_behind(&it, sender, memfd_create("fence", MFD_CLOEXEC));
    expect_broken(&it, sender, receiver, "room 7: a chunk's fence: a file of its kind is never waited for");
    pair_close(&it);
}

static void a_fence_whose_other_end_was_closed_unfired_fails_the_room(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    int ends[2];
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, kTo, 1));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    send_behind(&it, sender, ends[0]);
    await(it.prefill, sender, KVF_STATE_WAITING);
    close(ends[1]);
    expect_broken(&it, sender, receiver, "room 7: a chunk's fence: whoever was to fire it has closed its end");
    pair_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fence_of_a_kind_that_is_never_waited_for_fails_the_room),
        cmocka_unit_test(a_fence_whose_other_end_was_closed_unfired_fails_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
