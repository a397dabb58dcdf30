/* How much of a peer's memfds is mapped: what it has registered, in as few mappings as that takes. */
#define _GNU_SOURCE
#include "shm_rig.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 256, MORE = MOST + 3 };

typedef struct scene {
    side ours, theirs;
    shm_link link;
    memory file;
    size_t count;
    memory files[MORE];
    kvf_region *regions[MORE];
    kvf_remote *remotes[MORE];
} scene;

static scene *open_scene(const char *options) {
    scene *it = calloc(1, sizeof *it);
    assert_non_null(it);
    side_open(&it->ours, MEMORY_PLAIN, PAGE, options);
    side_open(&it->theirs, MEMORY_PLAIN, PAGE, options);
    link_meet(&it->link, &it->ours, &it->theirs);
    return it;
}

static void release(scene *it, size_t i) {
    if (it->remotes[i] != NULL)
        shm_ops()->release_key(it->link.peer, it->remotes[i]);
    it->remotes[i] = NULL;
}

static void close_scene(scene *it) {
    for (size_t i = 0; i < it->count; ++i) {
        release(it, i);
        shm_ops()->deregister_region(it->theirs.instance, it->regions[i]);
        if (it->files[i].base != NULL)
            memory_free(&it->files[i]);
    }
    link_close(&it->link);
    if (it->file.base != NULL)
        memory_free(&it->file);
    side_close(&it->theirs);
    side_close(&it->ours);
    free(it);
}

static void add(scene *it, const memory *of, uint64_t offset, uint64_t length) {
    assert_true(it->count < MORE);
    expect_status(KVF_OK, side_register(&it->theirs, of, offset, length, &it->regions[it->count++]));
}

static int import(scene *it, size_t i) {
    shm_link link = {it->link.peer, NULL, NULL};
    const blob key = side_export(&it->theirs, it->regions[i]);
    const int status = link_import(&link, &key);
    it->remotes[i] = link.remote;
    return status;
}

static void expect_written(scene *it, size_t i, const unsigned char *at, uint64_t length) {
    const shm_link link = {it->link.peer, it->remotes[i], NULL};
    const kvf_segment segment = segment_of(&it->ours, &link, 0, 0, length);
    memory_fill(it->ours.memory.base, PAGE, (uint32_t)i + 1);
    transfer_all(&it->ours, &link, KVF_OP_WRITE, &segment, 1);
    assert_memory_equal(at, it->ours.memory.base, length);
}

static uint64_t mapped(const scene *it) {
    return side_counter(&it->ours, "open_mapped_bytes");
}

static void only_what_is_registered_of_a_memfd_is_mapped(void **state) {
    (void)state;
    scene *it = open_scene("");
    it->file = memory_new(MEMORY_SEALED, (size_t)1 << 40); /* more than may be mapped of it would be noticed */
    add(it, &it->file, 1000 * PAGE + 100, PAGE);
    expect_status(KVF_OK, import(it, 0));
    assert_int_equal(mapped(it), 2 * PAGE);
    expect_written(it, 0, it->file.base + 1000 * PAGE + 100, PAGE);
    close_scene(it);
}

static void regions_side_by_side_share_a_mapping_and_others_do_not(void **state) {
    (void)state;
    scene *it = open_scene("");
    it->file = memory_new(MEMORY_SEALED, 64 * PAGE);
    const uint64_t offsets[] = {8 * PAGE, 4 * PAGE, 6 * PAGE, 20 * PAGE, 9 * PAGE + 8};
    const size_t count = sizeof offsets / sizeof *offsets;
    for (size_t i = 0; i < count; ++i)
        add(it, &it->file, offsets[i], 2 * PAGE - 10);
    /* From the page of 4 to that of 11, in one. */
    expect_status(KVF_OK, import(it, 2));
    assert_int_equal(mapped(it), 7 * PAGE);
    expect_status(KVF_OK, import(it, 0));
    expect_status(KVF_OK, import(it, 1));
    expect_status(KVF_OK, import(it, 4));
    assert_int_equal(mapped(it), 7 * PAGE);
    expect_status(KVF_OK, import(it, 3));
    assert_int_equal(mapped(it), 9 * PAGE);
    for (size_t i = 0; i < count; ++i)
        expect_written(it, i, it->file.base + offsets[i], PAGE);
    for (size_t i = 0; i < count; ++i)
        release(it, i);
    assert_int_equal(mapped(it), 0);
    close_scene(it);
}

static void region_registered_later_is_mapped_beside_the_earlier_ones(void **state) {
    (void)state;
    scene *it = open_scene("");
    it->file = memory_new(MEMORY_SEALED, 64 * PAGE);
    add(it, &it->file, 4 * PAGE, 2 * PAGE);
    expect_status(KVF_OK, import(it, 0));
    add(it, &it->file, 6 * PAGE, 2 * PAGE);
    expect_status(KVF_OK, import(it, 1));
    assert_int_equal(mapped(it), 2 * PAGE + 4 * PAGE);
    expect_written(it, 0, it->file.base + 4 * PAGE, PAGE);
    expect_written(it, 1, it->file.base + 6 * PAGE, PAGE);
    /* A fence unmaps the one and the other, though they begin at the same place. */
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(it->link.peer));
    assert_int_equal(mapped(it), 0);
    close_scene(it);
}

static void add_files(scene *it, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        it->files[i] = memory_new(MEMORY_SEALED, PAGE);
        add(it, &it->files[i], 0, PAGE);
    }
}

static void peer_has_no_more_than_so_many_mappings(void **state) {
    (void)state;
    scene *it = open_scene("cma=off");
    add_files(it, MORE);
    for (size_t i = 0; i < MOST; ++i)
        expect_status(KVF_OK, import(it, i));
    assert_int_not_equal(import(it, MOST), KVF_OK);
    expect_words("more than 256 memfds");
    assert_int_equal(mapped(it), MOST * PAGE);
    /* One that is released makes room for another. */
    release(it, 7);
    expect_status(KVF_OK, import(it, MOST));
    expect_written(it, MOST, it->files[MOST].base, PAGE);
    assert_int_not_equal(import(it, MOST + 1), KVF_OK);
    close_scene(it);
}

static void region_beyond_the_last_mapping_is_reached_by_cross_memory_attach(void **state) {
    (void)state;
    scene *it = open_scene("");
    add_files(it, MORE);
    for (size_t i = 0; i < MORE; ++i)
        expect_status(KVF_OK, import(it, i));
    assert_int_equal(mapped(it), MOST * PAGE);
    for (size_t i = 0; i < MORE; ++i)
        expect_written(it, i, it->files[i].base, PAGE);
    assert_int_equal(side_counter(&it->ours, "cma_bytes"), (MORE - MOST) * PAGE);
    close_scene(it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_registered_of_a_memfd_is_mapped),
        cmocka_unit_test(regions_side_by_side_share_a_mapping_and_others_do_not),
        cmocka_unit_test(region_registered_later_is_mapped_beside_the_earlier_ones),
        cmocka_unit_test(peer_has_no_more_than_so_many_mappings),
        cmocka_unit_test(region_beyond_the_last_mapping_is_reached_by_cross_memory_attach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
