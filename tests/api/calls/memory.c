/* Memory and tensors: what may be registered, and what is wrong by which status. */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned char g_memory[1 << 16];

/* 4 pages of 64 bytes. */
static kvf_tensor tensor_at(uint32_t layer, void *base) {
    kvf_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.layer = layer;
    tensor.base = base;
    tensor.page_count = 4;
    tensor.page_bytes = 64;
    return tensor;
}

static int add(kvf_engine *engine, const kvf_tensor *tensors, size_t count) {
    return kvf_engine_register(engine, tensors, count, sizeof *tensors);
}

static int open_engine(void **state) {
    const kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    *state = engine_open(&config, NULL);
    return 0;
}

static int close_engine(void **state) {
    EXPECT_OK(kvf_engine_destroy(*state, LONG_MS));
    return 0;
}

static void memory_that_is_not_there_is_refused(void **state) {
    kvf_tensor it = tensor_at(3, NULL);
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_EMPTY, "tensor (group 0, layer 3, part 0): base is NULL");
    it = tensor_at(3, g_memory);
    it.page_count = 0;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_EMPTY, "page_count is 0 and page_bytes 64");
    it = tensor_at(3, g_memory);
    it.page_bytes = 0;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_EMPTY, "page_count is 4 and page_bytes 0");
    EXPECT_ERROR(add(*state, NULL, 0), KVF_ERR_EMPTY, "count is 0");
}

static void ranges_that_wrap_are_refused(void **state) {
    kvf_tensor it = tensor_at(0, (void *)(UINTPTR_MAX - 100));
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_RANGE, "4 pages 64 bytes apart");
    it = tensor_at(0, g_memory);
    it.page_count = UINT32_MAX;
    it.page_bytes = it.page_stride = UINT64_MAX / 2;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_RANGE, "wrap around the address space");
    it = tensor_at(0, g_memory);
    it.page_count = (uint64_t)1 << 32;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_RANGE, "page_count is 4294967296");
}

static void tensors_that_contradict_themselves_are_refused(void **state) {
    kvf_tensor it = tensor_at(0, g_memory);
    it.page_stride = 63;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_INVALID, "page_stride 63 is below page_bytes 64");
    it = tensor_at(0, g_memory);
    it.rows = 2;
    it.axis_count = 3;
    it.axis_total = 8;
    it.unit_bytes = 16;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_INVALID,
                 "page_bytes is 64; expected rows 2 x axis_count 3 x unit_bytes 16");
    it.axis_count = 2;
    it.axis_begin = 7;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_INVALID, "the interval of 2 units from 7 is not within axis_total 8");
    it.axis_begin = 0;
    it.unit_bytes = 0;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_INVALID, "unit_bytes 0");
    it = tensor_at(0, g_memory);
    it.memory_kind = 3;
    EXPECT_ERROR(add(*state, &it, 1), KVF_ERR_UNSUPPORTED, "memory_kind is 3");
}

static void a_name_twice_is_refused(void **state) {
    const kvf_tensor twice[] = {tensor_at(5, g_memory), tensor_at(5, g_memory + 4096)};
    EXPECT_ERROR(add(*state, twice, 2), KVF_ERR_DUPLICATE, "tensor (group 0, layer 5, part 0) is registered twice");
    EXPECT_OK(add(*state, twice, 1));
    EXPECT_ERROR(add(*state, twice + 1, 1), KVF_ERR_DUPLICATE, "tensor (group 0, layer 5, part 0) is registered twice");
}

static void overlaps_have_to_agree(void **state) {
    kvf_tensor two[] = {tensor_at(0, g_memory), tensor_at(1, g_memory + 32)};
    EXPECT_ERROR(add(*state, two, 2), KVF_ERR_OVERLAP, "share memory but not their pages");
    two[0].page_stride = two[1].page_stride = 128;
    two[1].base = g_memory + 64;
    EXPECT_OK(add(*state, two, 2));
    const kvf_tensor across = tensor_at(2, g_memory + 96);
    EXPECT_ERROR(add(*state, &across, 1), KVF_ERR_OVERLAP, "tensor (group 0, layer 2, part 0)");
}

static void all_tensors_of_a_call_are_taken_or_none(void **state) {
    kvf_tensor two[] = {tensor_at(0, g_memory), tensor_at(1, NULL)};
    const uint32_t page = 0;
    const kvf_index_list list = {0, 1, &page};
    kvf_chunk chunk;
    kvf_room room;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    EXPECT_ERROR(add(*state, two, 2), KVF_ERR_EMPTY, "layer 1");
    EXPECT_OK(kvf_room_open_sender(*state, 7, NULL, &room));
    EXPECT_ERROR(kvf_room_send(*state, room, &chunk), KVF_ERR_GROUP, "group 0, of which no tensor is registered");
    two[1].base = g_memory + 4096;
    EXPECT_OK(add(*state, two, 2));
    EXPECT_OK(kvf_room_send(*state, room, &chunk));
    EXPECT_OK(kvf_room_abort(*state, room, NULL));
    close_room(*state, room);
}

/* ---------------------------------------------------------------------------------------------------- allocation */

static void allocated_memory_is_zeroed_whole_pages(void **state) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = NULL;
    EXPECT_OK(kvf_memory_alloc(*state, page + 1, &memory));
    assert_int_equal((uintptr_t)memory % page, 0);
    for (size_t i = 0; i < 2 * page; i++)
        assert_int_equal(((unsigned char *)memory)[i], 0);
    memset(memory, 1, 2 * page);
    EXPECT_OK(kvf_memory_free(*state, memory));
}

static void what_can_not_be_allocated_says_so(void **state) {
    void *memory = NULL;
    EXPECT_ERROR(kvf_memory_alloc(*state, 0, &memory), KVF_ERR_EMPTY, "bytes is 0");
    EXPECT_ERROR(kvf_memory_alloc(*state, SIZE_MAX, &memory), KVF_ERR_NO_MEMORY, "18446744073709551615 bytes");
    EXPECT_ERROR(kvf_memory_alloc(*state, SIZE_MAX / 4, &memory), KVF_ERR_NO_MEMORY, "");
    assert_null(memory);
}

static void memory_is_freed_once_by_its_engine_when_no_tensor_lies_in_it(void **state) {
    const kvf_engine_config config = config_of(KVF_ROLE_DECODE);
    kvf_engine *other = engine_open(&config, NULL);
    void *used = NULL, *unused = NULL;
    EXPECT_OK(kvf_memory_alloc(*state, 4096, &used));
    EXPECT_OK(kvf_memory_alloc(*state, 4096, &unused));
    const kvf_tensor tensor = tensor_at(0, (unsigned char *)used + 128);
    EXPECT_OK(add(*state, &tensor, 1));
    EXPECT_ERROR(kvf_memory_free(*state, used), KVF_ERR_BUSY, "a registered tensor lies in the memory at ");
    EXPECT_ERROR(kvf_memory_free(other, unused), KVF_ERR_INVALID, "was not given by kvf_memory_alloc of this engine");
    EXPECT_ERROR(kvf_memory_free(*state, (char *)unused + 1), KVF_ERR_INVALID, "was not given by kvf_memory_alloc");
    EXPECT_ERROR(kvf_memory_free(*state, g_memory), KVF_ERR_INVALID, "was not given by kvf_memory_alloc");
    EXPECT_OK(kvf_memory_free(*state, unused));
    EXPECT_ERROR(kvf_memory_free(*state, unused), KVF_ERR_INVALID, "or is freed already");
    EXPECT_OK(kvf_memory_free(*state, NULL));
    EXPECT_OK(kvf_engine_destroy(other, LONG_MS));
}

static void memory_of_the_callers_own_is_carried_too(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    kvf_tensor tensors[TENSORS];
    const uint32_t from[] = {0, 5, 63}, to[] = {9, 8, 7};
    unsigned char *const memory = malloc(MEMORY_BYTES);
    memset(memory, 0x3c, MEMORY_BYTES);
    memset(&it, 0, sizeof it);
    it.prefill = engine_open(&config, NULL);
    it.from = memory;
    tensors_of(memory, tensors);
    EXPECT_OK(add(it.prefill, tensors, TENSORS));
    config = config_of(KVF_ROLE_DECODE);
    it.decode = engine_open(&config, &it.to);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, to, 3));
    EXPECT_OK(send_pages(it.prefill, sender, from, 3, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    expect_arrived(&it, from, to, 3);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    pair_close(&it);
    free(memory);
}

static void tensors_registered_while_peers_are_connected_are_used_by_later_rooms(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    const uint32_t page = 1;
    const kvf_index_list list = {9, 1, &page};
    static unsigned char from[512], to[512];
    kvf_tensor tensor = tensor_at(0, from);
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, &page, 1));
    EXPECT_OK(send_pages(it.prefill, sender, &page, 1, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);

    memset(from, 0x42, sizeof from);
    tensor.group = 9;
    EXPECT_OK(add(it.prefill, &tensor, 1));
    tensor.base = to;
    EXPECT_OK(add(it.decode, &tensor, 1));
    kvf_chunk chunk;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.flags = KVF_CHUNK_LAST;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    open_rooms(&it, 8, &sender, &receiver);
    EXPECT_OK(kvf_room_accept(it.decode, receiver, &list, 1, sizeof list));
    EXPECT_OK(kvf_room_send(it.prefill, sender, &chunk));
    EXPECT_END(it.decode, receiver, KVF_OK);
    assert_memory_equal(to + 64, from + 64, 64);
    assert_int_equal(to[63], 0);
    assert_int_equal(to[128], 0);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    pair_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_that_is_not_there_is_refused, open_engine, close_engine),
        cmocka_unit_test_setup_teardown(ranges_that_wrap_are_refused, open_engine, close_engine),
        cmocka_unit_test_setup_teardown(tensors_that_contradict_themselves_are_refused, open_engine, close_engine),
        cmocka_unit_test_setup_teardown(a_name_twice_is_refused, open_engine, close_engine),
        cmocka_unit_test_setup_teardown(overlaps_have_to_agree, open_engine, close_engine),
        cmocka_unit_test_setup_teardown(all_tensors_of_a_call_are_taken_or_none, open_engine, close_engine),
        cmocka_unit_test_setup_teardown(allocated_memory_is_zeroed_whole_pages, open_engine, close_engine),
        cmocka_unit_test_setup_teardown(what_can_not_be_allocated_says_so, open_engine, close_engine),
        cmocka_unit_test_setup_teardown(memory_is_freed_once_by_its_engine_when_no_tensor_lies_in_it, open_engine,
                                        close_engine),
        cmocka_unit_test(memory_of_the_callers_own_is_carried_too),
        cmocka_unit_test(tensors_registered_while_peers_are_connected_are_used_by_later_rooms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
