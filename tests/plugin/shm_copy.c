/* Writes and reads between two instances of one process, by each way: a mapping, cross-memory attach of a memfd, and of
 * memory without one. */
#include "shm_rig.h"

#include <stdlib.h>
#include <string.h>

enum { PAGES = 64, BYTES = PAGES * PAGE };

typedef struct way {
    const char *options;
    memory_kind kind;
} way;

typedef struct pair {
    side ours, theirs;
    shm_link link;
} pair;

static pair *pair_open(const way *by, size_t bytes) {
    pair *it = malloc(sizeof *it);
    assert_non_null(it);
    side_open(&it->ours, by->kind, bytes, by->options);
    side_open(&it->theirs, by->kind, bytes, by->options);
    memory_fill(it->ours.memory.base, bytes, 1);
    memory_fill(it->theirs.memory.base, bytes, 2);
    link_open(&it->link, &it->ours, &it->theirs);
    return it;
}

static void pair_close(pair *it) {
    link_close(&it->link);
    side_close(&it->theirs);
    side_close(&it->ours);
    free(it);
}

static int set_up(void **state) {
    *state = pair_open(*state, BYTES);
    return 0;
}

static int tear_down(void **state) {
    pair_close(*state);
    return 0;
}

/* Runs the segments in the plainest way on copies of both memories, and compares with what the plugin makes of them: so
 * also every byte that is none of theirs. */
static void check_transfer(pair *it, uint32_t op, const kvf_segment *segments, uint32_t count) {
    const size_t bytes = it->ours.memory.size;
    unsigned char *ours = malloc(bytes), *theirs = malloc(bytes);
    assert_non_null(ours);
    assert_non_null(theirs);
    memcpy(ours, it->ours.memory.base, bytes);
    memcpy(theirs, it->theirs.memory.base, bytes);
    for (uint32_t i = 0; i < count; ++i) {
        const kvf_segment *s = &segments[i];
        for (uint64_t k = 0; k < s->count; ++k) {
            unsigned char *local = ours + s->local_offset + k * s->local_stride;
            unsigned char *remote = theirs + s->remote_offset + k * s->remote_stride;
            if (op == KVF_OP_WRITE)
                memcpy(remote, local, s->length);
            else
                memcpy(local, remote, s->length);
        }
    }
    transfer_all(&it->ours, &it->link, op, segments, count);
    assert_memory_equal(it->ours.memory.base, ours, bytes);
    assert_memory_equal(it->theirs.memory.base, theirs, bytes);
    free(ours);
    free(theirs);
}

static void check_both_ways(pair *it, const kvf_segment *segments, uint32_t count) {
    check_transfer(it, KVF_OP_WRITE, segments, count);
    memory_fill(it->theirs.memory.base, it->theirs.memory.size, 3);
    check_transfer(it, KVF_OP_READ, segments, count);
}

static void first_and_last_bytes_arrive(void **state) {
    pair *it = *state;
    const kvf_segment segments[] = {
        segment_of(&it->ours, &it->link, 0, BYTES - 1, 1),
        segment_of(&it->ours, &it->link, BYTES - 1, 0, 1),
    };
    check_both_ways(it, segments, 2);
}

static void whole_region_arrives(void **state) {
    pair *it = *state;
    const kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, BYTES);
    check_both_ways(it, &segment, 1);
}

static void odd_lengths_at_odd_places_arrive(void **state) {
    pair *it = *state;
    kvf_segment segments[100];
    for (uint32_t i = 0; i < 100; ++i)
        segments[i] = segment_of(&it->ours, &it->link, i * 1999 + 7, (99 - i) * 2003 + 3, 1 + i * 19);
    check_both_ways(it, segments, 100);
}

static void lengths_around_a_page_at_odd_places_arrive(void **state) {
    pair *it = *state;
    kvf_segment segments[48];
    for (uint32_t i = 0; i < 48; ++i)
        segments[i] = segment_of(&it->ours, &it->link, i * 5000 + i % 7, (47 - i) * 5100 + i % 67, PAGE - 70 + i * 3);
    check_both_ways(it, segments, 48);
}

static void zero_lengths_move_nothing_and_complete(void **state) {
    pair *it = *state;
    kvf_segment segments[] = {
        segment_of(&it->ours, &it->link, 0, 0, 0), segment_of(&it->ours, &it->link, BYTES, BYTES, 0),
        segment_of(&it->ours, &it->link, 8, 8, 8), segment_of(&it->ours, &it->link, 5, 5, 0),
        segment_of(&it->ours, &it->link, 5, 5, 0),
    };
    segments[3].count = UINT64_MAX;
    segments[4].count = 0;
    segments[4].length = 0;
    check_both_ways(it, segments + 1, 2);
    const outcome out = transfer(&it->ours, &it->link, KVF_OP_WRITE, segments, 5);
    assert_int_equal(out.refused, KVF_OK);
    assert_int_equal(out.status, KVF_OK);
    assert_int_equal(out.bytes, 8);
}

static void scattered_pages_arrive_each_at_its_place(void **state) {
    pair *it = *state;
    kvf_segment segments[PAGES];
    for (uint32_t i = 0; i < PAGES; ++i)
        segments[i] = segment_of(&it->ours, &it->link, (i * 37 % PAGES) * PAGE, (i * 23 % PAGES) * PAGE, PAGE);
    check_both_ways(it, segments, PAGES);
}

static void strided_pieces_arrive_each_at_its_place(void **state) {
    pair *it = *state;
    kvf_segment segments[] = {
        {it->ours.region, it->link.remote, 16, 64, 100, 50, 1000, 1500},
        {it->ours.region, it->link.remote, 100000, 200000, 3000, 9, 3000, 5000},
        /* More pieces than one system call takes. */
        {it->ours.region, it->link.remote, 150000, 90000, 8, 3000, 24, 16},
        {it->ours.region, it->link.remote, 0, 0, BYTES, 1, UINT64_MAX, UINT64_MAX},
    };
    check_both_ways(it, segments, 3);
    check_both_ways(it, segments + 3, 1);
}

static void pieces_that_end_with_the_region_arrive(void **state) {
    pair *it = *state;
    const kvf_segment segment = {it->ours.region, it->link.remote, BYTES - 300, BYTES - 500, 100, 3, 100, 200};
    check_both_ways(it, &segment, 1);
}

static void segments_outside_a_region_are_refused(void **state) {
    pair *it = *state;
    const uint64_t top = UINT64_MAX;
    const struct {
        uint64_t local, remote, length, count, local_stride, remote_stride;
    } bad[] = {
        {0, 0, BYTES + 1, 1, 0, 0},
        {1, 0, BYTES, 1, 0, 0},
        {0, 1, BYTES, 1, 0, 0},
        {BYTES, 0, 1, 1, 0, 0},
        {0, BYTES, 1, 1, 0, 0},
        {0, BYTES + 1, 0, 1, 0, 0},
        {BYTES + 1, 0, 0, 1, 0, 0},
        /* offset + length wraps */
        {0, top, 1, 1, 0, 0},
        {top, 0, 2, 1, 0, 0},
        {0, top - 10, 20, 1, 0, 0},
        {8, 8, top, 1, 0, 0},
        {8, 8, top - 8, 1, 0, 0},
        /* the last piece */
        {0, 0, 8, 2, BYTES, 8},
        {0, 0, 8, 2, 8, BYTES},
        {0, 0, 8, BYTES / 8 + 1, 8, 0},
        /* (count - 1) * stride wraps, to something small or to the region's start */
        {0, 0, 8, (UINT64_C(1) << 32) + 1, 0, UINT64_C(1) << 32},
        {0, 0, 8, 2, 0, top - 7},
        {8, 8, 8, 2, top - 7, top - 7},
        {0, 0, 8, top, top, 0},
        /* count * length wraps */
        {0, 0, 16, (UINT64_C(1) << 60) + 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        const kvf_segment segment = {it->ours.region, it->link.remote, bad[i].local,        bad[i].remote,
                                     bad[i].length,   bad[i].count,    bad[i].local_stride, bad[i].remote_stride};
        const outcome out = transfer(&it->ours, &it->link, i % 2 == 0 ? KVF_OP_WRITE : KVF_OP_READ, &segment, 1);
        if (out.refused != KVF_ERR_RANGE)
            fail_msg("bad segment %zu is not refused but %d", i, out.refused);
    }
    expect_words("2^64");
}

static void bad_segment_behind_good_ones_is_refused_when_it_comes_first(void **state) {
    pair *it = *state;
    const kvf_segment segments[] = {
        segment_of(&it->ours, &it->link, 0, 0, 100),
        segment_of(&it->ours, &it->link, 100, 100, 100),
        segment_of(&it->ours, &it->link, 0, BYTES - 99, 100),
        segment_of(&it->ours, &it->link, 200, 200, 100),
    };
    const outcome out = transfer(&it->ours, &it->link, KVF_OP_WRITE, segments, 4);
    assert_int_equal(out.posts, 1);
    assert_int_equal(out.bytes, 200);
    assert_int_equal(out.refused, KVF_ERR_RANGE);
    assert_memory_equal(it->ours.memory.base, it->theirs.memory.base, 200);
}

static void post_takes_a_bounded_part_and_says_how_much(void **state) {
    pair *it = *state;
    enum { COUNT = 5000 };
    kvf_segment *segments = calloc(COUNT, sizeof *segments);
    assert_non_null(segments);
    for (uint32_t i = 0; i < COUNT; ++i)
        segments[i] = segment_of(&it->ours, &it->link, i * 40, i * 48, 40);
    uint32_t accepted = 0;
    expect_status(KVF_OK, shm_ops()->post(it->ours.lane, it->link.peer, KVF_OP_WRITE, segments, COUNT, 7, &accepted));
    assert_in_range(accepted, 1, COUNT - 1);
    kvf_completion completion;
    assert_int_equal(shm_ops()->poll(it->ours.lane, &completion, 1), 1);
    assert_int_equal(completion.token, 7);
    assert_int_equal(completion.bytes, accepted * 40);
    check_both_ways(it, segments, COUNT);
    free(segments);
}

static void full_lane_accepts_nothing_until_it_is_polled(void **state) {
    pair *it = *state;
    const kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, 8);
    uint64_t posted = 0;
    for (uint32_t accepted = 1; accepted == 1; posted += accepted) {
        assert_true(posted < 1000000);
        expect_status(KVF_OK,
                      shm_ops()->post(it->ours.lane, it->link.peer, KVF_OP_WRITE, &segment, 1, posted, &accepted));
    }
    kvf_completion completions[16];
    assert_int_equal(shm_ops()->poll(it->ours.lane, completions, 1), 1);
    assert_int_equal(completions[0].token, 0);
    uint32_t accepted = 0;
    expect_status(KVF_OK, shm_ops()->post(it->ours.lane, it->link.peer, KVF_OP_WRITE, &segment, 1, posted, &accepted));
    assert_int_equal(accepted, 1);
    uint64_t next = 1;
    for (int count = 16; count == 16;) {
        count = shm_ops()->poll(it->ours.lane, completions, 16);
        for (int i = 0; i < count; ++i, ++next) {
            assert_int_equal(completions[i].token, next);
            assert_int_equal(completions[i].status, KVF_OK);
            assert_null(completions[i].message);
        }
    }
    assert_int_equal(next, posted + 1);
}

static void memory_of_others_is_refused(void **state) {
    pair *it = *state;
    uint32_t accepted = 9;
    kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, 8);
    segment.local = it->theirs.region;
    expect_status(KVF_ERR_INVALID,
                  shm_ops()->post(it->ours.lane, it->link.peer, KVF_OP_WRITE, &segment, 1, 0, &accepted));
    side third;
    shm_link other;
    side_open(&third, MEMORY_SEALED, PAGE, "");
    link_open(&other, &it->ours, &third);
    segment = segment_of(&it->ours, &other, 0, 0, 8);
    expect_status(KVF_ERR_INVALID,
                  shm_ops()->post(it->ours.lane, it->link.peer, KVF_OP_WRITE, &segment, 1, 0, &accepted));
    segment.remote = NULL;
    expect_status(KVF_ERR_INVALID,
                  shm_ops()->post(it->ours.lane, it->link.peer, KVF_OP_WRITE, &segment, 1, 0, &accepted));
    assert_int_equal(accepted, 0);
    link_close(&other);
    side_close(&third);
}

static void unknown_operations_and_empty_posts_are_refused(void **state) {
    pair *it = *state;
    uint32_t accepted = 9;
    const kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, 8);
    expect_status(KVF_ERR_UNSUPPORTED, shm_ops()->post(it->ours.lane, it->link.peer, 3, &segment, 1, 0, &accepted));
    expect_status(KVF_ERR_INVALID,
                  shm_ops()->post(it->ours.lane, it->link.peer, KVF_OP_WRITE, &segment, 0, 0, &accepted));
    assert_int_equal(accepted, 0);
}

/* ------------------------------------------------------------------------------------- what is not of one way */

static void segment_larger_than_a_post_moves_whole(void **state) {
    (void)state;
    const way ways[] = {{"", MEMORY_SEALED}, {"", MEMORY_PLAIN}};
    const size_t bytes = (size_t)9 << 20;
    for (size_t i = 0; i < 2; ++i) {
        pair *it = pair_open(&ways[i], bytes);
        const kvf_segment segments[] = {
            segment_of(&it->ours, &it->link, 1, 3, bytes - 5),
            segment_of(&it->ours, &it->link, 11, 70, 100),
        };
        check_both_ways(it, segments, 2);
        pair_close(it);
    }
}

static void regions_of_one_memfd_share_a_mapping(void **state) {
    (void)state;
    const way by = {"", MEMORY_SEALED};
    pair *it = pair_open(&by, BYTES);
    assert_int_equal(side_counter(&it->ours, "open_mapped_bytes"), BYTES);
    kvf_region *region = NULL;
    expect_status(KVF_OK, side_register(&it->theirs, &it->theirs.memory, 3 * PAGE, PAGE, &region));
    const blob key = side_export(&it->theirs, region);
    shm_link part = {it->link.peer, NULL, NULL};
    expect_status(KVF_OK, link_import(&part, &key));
    assert_int_equal(side_counter(&it->ours, "open_mapped_bytes"), BYTES);

    const kvf_segment segment = segment_of(&it->ours, &part, 0, 1, PAGE - 1);
    transfer_all(&it->ours, &part, KVF_OP_WRITE, &segment, 1);
    assert_memory_equal(it->theirs.memory.base + 3 * PAGE + 1, it->ours.memory.base, PAGE - 1);
    const kvf_segment beyond = segment_of(&it->ours, &part, 0, 1, PAGE);
    assert_int_equal(transfer(&it->ours, &part, KVF_OP_WRITE, &beyond, 1).refused, KVF_ERR_RANGE);

    shm_ops()->release_key(it->link.peer, it->link.remote);
    transfer_all(&it->ours, &part, KVF_OP_WRITE, &segment, 1);
    shm_ops()->release_key(part.peer, part.remote);
    assert_int_equal(side_counter(&it->ours, "open_mapped_bytes"), 0);
    expect_status(KVF_OK, link_import(&it->link, &it->theirs.key));
    shm_ops()->deregister_region(it->theirs.instance, region);
    pair_close(it);
}

static void counters_add_up(void **state) {
    (void)state;
    const way ways[] = {{"", MEMORY_SEALED}, {"cma=only", MEMORY_SEALED}};
    const char *names[] = {"map_bytes", "cma_bytes"};
    for (size_t i = 0; i < 2; ++i) {
        pair *it = pair_open(&ways[i], BYTES);
        const kvf_segment segments[] = {
            segment_of(&it->ours, &it->link, 0, 0, 1000),
            segment_of(&it->ours, &it->link, 5000, 5000, 500),
        };
        transfer_all(&it->ours, &it->link, KVF_OP_WRITE, segments, 2);
        transfer_all(&it->ours, &it->link, KVF_OP_READ, segments, 1);
        assert_int_equal(side_counter(&it->ours, names[i]), 2500);
        assert_int_equal(side_counter(&it->ours, names[1 - i]), 0);
        assert_int_equal(side_counter(&it->ours, "operations"), 2);
        assert_int_equal(side_counter(&it->ours, "failures"), 0);
        assert_int_equal(side_counter(&it->theirs, "operations"), 0);
        pair_close(it);
    }
}

#define EACH_WAY(f)                                                                                                    \
    {#f " (map)", f, set_up, tear_down, (void *)&by_map}, {#f " (cma, memfd)", f, set_up, tear_down, (void *)&by_cma}, \
    {                                                                                                                  \
#f " (cma, plain)", f, set_up, tear_down, (void *)&by_plain                                                    \
    }

int main(void) {
    static const way by_map = {"cma=off", MEMORY_SEALED}, by_cma = {"cma=only", MEMORY_SEALED},
                     by_plain = {"", MEMORY_PLAIN};
    const struct CMUnitTest tests[] = {
        EACH_WAY(first_and_last_bytes_arrive),
        EACH_WAY(whole_region_arrives),
        EACH_WAY(odd_lengths_at_odd_places_arrive),
        EACH_WAY(lengths_around_a_page_at_odd_places_arrive),
        EACH_WAY(zero_lengths_move_nothing_and_complete),
        EACH_WAY(scattered_pages_arrive_each_at_its_place),
        EACH_WAY(strided_pieces_arrive_each_at_its_place),
        EACH_WAY(pieces_that_end_with_the_region_arrive),
        EACH_WAY(segments_outside_a_region_are_refused),
        EACH_WAY(bad_segment_behind_good_ones_is_refused_when_it_comes_first),
        EACH_WAY(post_takes_a_bounded_part_and_says_how_much),
        EACH_WAY(full_lane_accepts_nothing_until_it_is_polled),
        EACH_WAY(memory_of_others_is_refused),
        EACH_WAY(unknown_operations_and_empty_posts_are_refused),
        cmocka_unit_test(segment_larger_than_a_post_moves_whole),
        cmocka_unit_test(regions_of_one_memfd_share_a_mapping),
        cmocka_unit_test(counters_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
