/* Two processes: what the one writes the other sees, and what a death, a close and a fence do. */
#define _GNU_SOURCE
#include "shm_child.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 64 * PAGE };

typedef struct way {
    const char *options;
    memory_kind kind;
} way;

typedef struct pair {
    side ours;
    child theirs;
    shm_link link;
} pair;

static void pair_open(pair *it, const way *by) {
    const child_setup setup = {by->kind, BYTES, by->options, NULL};
    assert_true(child_start(&it->theirs, &setup));
    side_open(&it->ours, by->kind, BYTES, by->options);
    memory_fill(it->ours.memory.base, BYTES, 1);
    child_link_open(&it->link, &it->ours, &it->theirs);
}

static void pair_close(pair *it) {
    link_close(&it->link);
    side_close(&it->ours);
    child_stop(&it->theirs);
}

static kvf_segment whole(const pair *it) {
    return segment_of(&it->ours, &it->link, 0, 0, BYTES);
}

static void written_bytes_are_seen_by_the_other_process(void **state) {
    pair it;
    pair_open(&it, *state);
    const kvf_segment segments[] = {
        segment_of(&it.ours, &it.link, 0, BYTES / 2, BYTES / 2),
        segment_of(&it.ours, &it.link, BYTES / 2, 0, BYTES / 2),
    };
    transfer_all(&it.ours, &it.link, KVF_OP_WRITE, segments, 2);
    assert_int_equal(child_checksum(&it.theirs, BYTES / 2, BYTES / 2), memory_checksum(it.ours.memory.base, BYTES / 2));
    assert_int_equal(child_checksum(&it.theirs, 0, BYTES / 2),
                     memory_checksum(it.ours.memory.base + BYTES / 2, BYTES / 2));
    pair_close(&it);
}

static void read_bytes_are_those_of_the_other_process(void **state) {
    pair it;
    pair_open(&it, *state);
    child_fill(&it.theirs, 5);
    const kvf_segment segment = whole(&it);
    transfer_all(&it.ours, &it.link, KVF_OP_READ, &segment, 1);
    assert_int_equal(memory_checksum(it.ours.memory.base, BYTES), child_checksum(&it.theirs, 0, BYTES));
    unsigned char *expected = it.ours.memory.base;
    memory expected_memory = memory_new(MEMORY_PLAIN, BYTES);
    memory_fill(expected_memory.base, BYTES, 5);
    assert_memory_equal(expected, expected_memory.base, BYTES);
    memory_free(&expected_memory);
    pair_close(&it);
}

static void both_sides_may_write_to_each_other(void **state) {
    pair it;
    pair_open(&it, *state);
    assert_int_equal(child_import(&it.theirs, &it.ours.key), KVF_OK);
    child_fill(&it.theirs, 9);
    const uint64_t theirs = child_checksum(&it.theirs, 0, PAGE);
    const kvf_segment segment = segment_of(&it.ours, &it.link, 0, PAGE, PAGE);
    transfer_all(&it.ours, &it.link, KVF_OP_WRITE, &segment, 1);
    assert_int_equal(child_copy(&it.theirs, KVF_OP_WRITE, 0, 2 * PAGE, PAGE), KVF_OK);
    assert_int_equal(memory_checksum(it.ours.memory.base + 2 * PAGE, PAGE), theirs);
    assert_int_equal(child_checksum(&it.theirs, PAGE, PAGE), memory_checksum(it.ours.memory.base, PAGE));
    pair_close(&it);
}

static void live_peer_is_not_fenced(void **state) {
    pair it;
    pair_open(&it, *state);
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(it.link.peer));
    expect_words("alive");
    /* Nor one that only does not answer. */
    assert_int_equal(kill(it.theirs.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(it.theirs.pid, NULL, WUNTRACED), it.theirs.pid);
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(it.link.peer));
    assert_int_equal(kill(it.theirs.pid, SIGCONT), 0);
    pair_close(&it);
}

static void killed_peer_is_fenced(void **state) {
    pair it;
    pair_open(&it, *state);
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(it.link.peer));
    child_kill(&it.theirs);
    expect_status(KVF_OK, shm_ops()->fence(it.link.peer));
    expect_status(KVF_OK, shm_ops()->fence(it.link.peer));
    assert_int_equal(side_counter(&it.ours, "open_mapped_bytes"), 0);
    link_close(&it.link);
    side_close(&it.ours);
    child_reap(&it.theirs);
}

static void expect_lost(const pair *it, uint32_t op) {
    const kvf_segment segment = whole(it);
    const outcome out = transfer(&it->ours, &it->link, op, &segment, 1);
    if (out.refused == KVF_OK)
        assert_int_equal(out.status, KVF_ERR_PEER_LOST);
    else
        assert_int_equal(out.refused, KVF_ERR_PEER_LOST);
}

static void posts_to_a_killed_peer_fail_cleanly(void **state) {
    pair it;
    pair_open(&it, *state);
    child_kill(&it.theirs);
    expect_lost(&it, KVF_OP_WRITE);
    expect_lost(&it, KVF_OP_READ);
    child_reap(&it.theirs);
    expect_lost(&it, KVF_OP_WRITE);
    expect_status(KVF_OK, shm_ops()->fence(it.link.peer));
    link_close(&it.link);
    side_close(&it.ours);
}

static void first_post_after_the_peer_was_reaped_fails_cleanly(void **state) {
    pair it;
    pair_open(&it, *state);
    child_kill(&it.theirs);
    child_reap(&it.theirs);
    expect_lost(&it, KVF_OP_WRITE);
    assert_int_equal(side_counter(&it.ours, "failures"), 1);
    link_close(&it.link);
    side_close(&it.ours);
}

static void late_write_after_fence_is_refused(void **state) {
    pair it;
    pair_open(&it, *state);
    const kvf_segment segment = whole(&it);
    const uint64_t before = child_checksum(&it.theirs, 0, BYTES);
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(it.link.peer));
    outcome out = transfer(&it.ours, &it.link, KVF_OP_WRITE, &segment, 1);
    assert_int_equal(out.refused, KVF_ERR_CANCELLED);
    expect_words("fenced");
    out = transfer(&it.ours, &it.link, KVF_OP_READ, &segment, 1);
    assert_int_equal(out.refused, KVF_ERR_CANCELLED);
    assert_int_equal(child_checksum(&it.theirs, 0, BYTES), before);
    assert_int_equal(side_counter(&it.ours, "open_mapped_bytes"), 0);
    kvf_remote *remote = NULL;
    expect_status(KVF_ERR_CANCELLED,
                  shm_ops()->import_key(it.link.peer, it.theirs.key.bytes, it.theirs.key.size, &remote));
    assert_null(remote);
    /* A new peer object for the same instance is not fenced. */
    shm_link again;
    child_link_open(&again, &it.ours, &it.theirs);
    const kvf_segment segment_again = segment_of(&it.ours, &again, 0, 0, BYTES);
    transfer_all(&it.ours, &again, KVF_OP_WRITE, &segment_again, 1);
    link_close(&again);
    pair_close(&it);
}

static void closed_instance_of_a_live_process_is_fenced_and_not_posted_to(void **state) {
    pair it;
    pair_open(&it, *state);
    child_close_instance(&it.theirs);
    const kvf_segment segment = whole(&it);
    const uint64_t before = child_checksum(&it.theirs, 0, BYTES);
    const outcome out = transfer(&it.ours, &it.link, KVF_OP_WRITE, &segment, 1);
    assert_int_equal(out.refused == KVF_OK ? out.status : out.refused, KVF_ERR_PEER_CLOSED);
    assert_int_equal(child_checksum(&it.theirs, 0, BYTES), before);
    expect_status(KVF_OK, shm_ops()->fence(it.link.peer));
    pair_close(&it);
}

static void peer_whose_process_became_another_program_is_fenced(void **state) {
    pair it;
    pair_open(&it, *state);
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(it.link.peer));
    child_exec(&it.theirs);
    expect_status(KVF_OK, shm_ops()->fence(it.link.peer));
    kvf_peer *peer = NULL;
    expect_status(KVF_ERR_UNREACHABLE, link_connect(&it.ours, &it.theirs.address, &peer));
    shm_ops()->peer_destroy(peer);
    child_kill(&it.theirs);
    child_reap(&it.theirs);
    link_close(&it.link);
    side_close(&it.ours);
}

static void address_of_a_closed_instance_is_unreachable(void **state) {
    pair it;
    pair_open(&it, *state);
    child_close_instance(&it.theirs);
    kvf_peer *peer = NULL;
    expect_status(KVF_ERR_UNREACHABLE, link_connect(&it.ours, &it.theirs.address, &peer));
    expect_words("cookie");
    shm_ops()->peer_destroy(peer);
    pair_close(&it);
}

static void address_of_a_dead_process_is_unreachable(void **state) {
    pair it;
    pair_open(&it, *state);
    child_kill(&it.theirs);
    kvf_peer *peer = NULL;
    expect_status(KVF_ERR_UNREACHABLE, link_connect(&it.ours, &it.theirs.address, &peer));
    /* Never connected, yet as dead as any. */
    expect_status(KVF_OK, shm_ops()->fence(peer));
    shm_ops()->peer_destroy(peer);
    link_close(&it.link);
    side_close(&it.ours);
    child_reap(&it.theirs);
}

static void live_peer_that_was_never_connected_is_not_fenced(void **state) {
    pair it;
    pair_open(&it, *state);
    kvf_peer *peer = NULL;
    expect_status(KVF_OK, link_create(&it.ours, &it.theirs.address, &peer));
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(peer));
    child_kill(&it.theirs);
    expect_status(KVF_OK, shm_ops()->fence(peer));
    shm_ops()->peer_destroy(peer);
    link_close(&it.link);
    side_close(&it.ours);
    child_reap(&it.theirs);
}

static void instance_of_the_same_process_is_fenced_once_it_is_closed(void **state) {
    const way *by = *state;
    side ours, theirs;
    shm_link link;
    side_open(&ours, by->kind, BYTES, by->options);
    side_open(&theirs, by->kind, BYTES, by->options);
    link_open(&link, &ours, &theirs);
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(link.peer));
    link_part(&link);
    side_close(&theirs);
    expect_status(KVF_OK, shm_ops()->fence(link.peer));
    link_close(&link);
    side_close(&ours);
}

static void hole_in_the_peers_memory_fails_the_copy_at_its_edge(void **state) {
    (void)state;
    const way by = {"", MEMORY_PLAIN};
    pair it;
    pair_open(&it, &by);
    const uint64_t edge = 20 * PAGE;
    child_unmap(&it.theirs, edge, PAGE);
    const kvf_segment segments[] = {
        segment_of(&it.ours, &it.link, 0, 0, 100),
        segment_of(&it.ours, &it.link, 100, 100, 30 * PAGE),
        segment_of(&it.ours, &it.link, 40 * PAGE, 40 * PAGE, 100),
    };
    for (uint32_t op = KVF_OP_WRITE; op <= KVF_OP_READ; ++op) {
        const outcome out = transfer(&it.ours, &it.link, op, segments, 3);
        assert_int_equal(out.refused, KVF_OK);
        assert_int_equal(out.status, KVF_ERR_TRANSPORT);
        assert_true(out.bytes <= edge);
        assert_non_null(strstr(out.message, "is not mapped"));
        if (op == KVF_OP_WRITE)
            assert_int_equal(child_checksum(&it.theirs, 0, out.bytes), memory_checksum(it.ours.memory.base, out.bytes));
    }
    /* The peer lives, and its other memory is as good as before. */
    const kvf_segment other = segment_of(&it.ours, &it.link, 0, 30 * PAGE, PAGE);
    transfer_all(&it.ours, &it.link, KVF_OP_WRITE, &other, 1);
    pair_close(&it);
}

static void hole_in_our_memory_fails_the_copy_and_is_called_ours(void **state) {
    (void)state;
    const way by = {"", MEMORY_PLAIN};
    pair it;
    pair_open(&it, &by);
    assert_int_equal(munmap(it.ours.memory.base + 8 * PAGE, PAGE), 0);
    for (uint32_t op = KVF_OP_WRITE; op <= KVF_OP_READ; ++op) {
        const kvf_segment segment = whole(&it);
        const outcome out = transfer(&it.ours, &it.link, op, &segment, 1);
        assert_int_equal(out.refused, KVF_OK);
        assert_int_equal(out.status, KVF_ERR_TRANSPORT);
        assert_true(out.bytes <= 8 * PAGE);
        assert_non_null(strstr(out.message, "our memory"));
    }
    pair_close(&it);
}

/* In a child of fork: puts memory of its own where the parent, and the parent alone, has a memfd mapped. Returns how
 * many places there were. */
static int occupy_what_is_not_there(unsigned char *places[8]) {
    char path[64], line[512];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)getppid());
    FILE *maps = fopen(path, "r");
    while (maps != NULL && count < 8 && fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin = 0, end = 0;
        if (strstr(line, "memfd:") == NULL || sscanf(line, "%lx-%lx", &begin, &end) != 2)
            continue;
        void *made = mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (made != MAP_FAILED)
            places[count++] = made;
    }
    if (maps != NULL)
        fclose(maps);
    return count;
}

static int close_in_the_child(pair *it, side *near, shm_link *near_link) {
    unsigned char *places[8];
    const int count = occupy_what_is_not_there(places);
    link_close(near_link);
    link_close(&it->link);
    side_close(&it->ours);
    side_close(near);
    /* What is there now is not the plugin's to unmap. */
    for (int i = 0; i < count; ++i)
        *places[i] = 1;
    return count < 2;
}

static void close_in_a_child_of_fork_leaves_the_parents_instance_open(void **state) {
    const way *by = *state;
    pair it;
    pair_open(&it, by);
    side near;
    shm_link near_link;
    side_open(&near, by->kind, BYTES, by->options);
    link_open(&near_link, &it.ours, &near);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(close_in_the_child(&it, &near, &near_link));
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    const kvf_segment segment = segment_of(&it.ours, &near_link, 0, PAGE, PAGE);
    transfer_all(&it.ours, &near_link, KVF_OP_WRITE, &segment, 1);
    const kvf_segment theirs = whole(&it);
    transfer_all(&it.ours, &it.link, KVF_OP_WRITE, &theirs, 1);
    /* What the child closed, its peer finds as before. */
    link_close(&near_link);
    link_open(&near_link, &it.ours, &near);
    link_close(&near_link);
    side_close(&near);
    pair_close(&it);
}

#define EACH_WAY(f)                                                                                        \
    {#f " (map)", f, NULL, NULL, (void *)&by_map}, {#f " (cma, memfd)", f, NULL, NULL, (void *)&by_cma}, { \
#f " (cma, plain)", f, NULL, NULL, (void *)&by_plain                                               \
    }

int main(void) {
    static const way by_map = {"cma=off", MEMORY_SEALED}, by_cma = {"cma=only", MEMORY_SEALED},
                     by_plain = {"", MEMORY_PLAIN};
    const struct CMUnitTest tests[] = {
        EACH_WAY(written_bytes_are_seen_by_the_other_process),
        EACH_WAY(read_bytes_are_those_of_the_other_process),
        EACH_WAY(both_sides_may_write_to_each_other),
        EACH_WAY(live_peer_is_not_fenced),
        EACH_WAY(killed_peer_is_fenced),
        EACH_WAY(posts_to_a_killed_peer_fail_cleanly),
        EACH_WAY(first_post_after_the_peer_was_reaped_fails_cleanly),
        EACH_WAY(late_write_after_fence_is_refused),
        EACH_WAY(closed_instance_of_a_live_process_is_fenced_and_not_posted_to),
        EACH_WAY(peer_whose_process_became_another_program_is_fenced),
        EACH_WAY(address_of_a_closed_instance_is_unreachable),
        EACH_WAY(address_of_a_dead_process_is_unreachable),
        EACH_WAY(live_peer_that_was_never_connected_is_not_fenced),
        EACH_WAY(instance_of_the_same_process_is_fenced_once_it_is_closed),
        EACH_WAY(close_in_a_child_of_fork_leaves_the_parents_instance_open),
        cmocka_unit_test(hole_in_the_peers_memory_fails_the_copy_at_its_edge),
        cmocka_unit_test(hole_in_our_memory_fails_the_copy_and_is_called_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
