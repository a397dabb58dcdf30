/* Cross-memory attach when the kernel does less than it was asked: this program's own process_vm_* stand before the C
 * library's, and cut, refuse or repeat. */
#define _GNU_SOURCE
#include "shm_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BYTES = 64 * PAGE };

/* The script: what becomes of the copies, which are the calls of more than the cookie's two words. */
static struct script {
    size_t most;      /* bytes that one call moves, 0: all */
    int good;         /* calls before the ones that fail */
    int error;        /* of those */
    int errors;       /* how many they are */
    int nothing;      /* every call moves nothing */
    int cookie_error; /* of reads of the cookie */
    int calls;        /* counted here */
} script;

static size_t total(const struct iovec *list, unsigned long count) {
    size_t out = 0;
    for (unsigned long i = 0; i < count; ++i)
        out += list[i].iov_len;
    return out;
}

/* The list cut to so many bytes. */
static unsigned long cut(const struct iovec *from, unsigned long count, size_t bytes, struct iovec *to) {
    unsigned long used = 0;
    for (; used < count && bytes > 0; ++used) {
        to[used] = from[used];
        if (to[used].iov_len > bytes)
            to[used].iov_len = bytes;
        bytes -= to[used].iov_len;
    }
    return used;
}

static ssize_t perform(long number, pid_t pid, const struct iovec *local, unsigned long locals,
                       const struct iovec *remote, unsigned long remotes, unsigned long flags) {
    static struct iovec cut_local[1024], cut_remote[1024];
    if (total(local, locals) <= 16) {
        errno = script.cookie_error;
        return script.cookie_error != 0 ? -1 : syscall(number, pid, local, locals, remote, remotes, flags);
    }
    assert_true(locals <= 1024);
    assert_true(remotes <= 1024);
    ++script.calls;
    if (script.nothing)
        return 0;
    if (script.calls > script.good && script.errors > 0) {
        --script.errors;
        errno = script.error;
        return -1;
    }
    const size_t most = script.most == 0 ? SIZE_MAX : script.most;
    locals = cut(local, locals, most, cut_local);
    remotes = cut(remote, remotes, most, cut_remote);
    return syscall(number, pid, cut_local, locals, cut_remote, remotes, flags);
}

__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const struct iovec *local,
                                                                unsigned long locals, const struct iovec *remote,
                                                                unsigned long remotes, unsigned long flags) {
    return perform(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

__attribute__((visibility("default"))) ssize_t process_vm_writev(pid_t pid, const struct iovec *local,
                                                                 unsigned long locals, const struct iovec *remote,
                                                                 unsigned long remotes, unsigned long flags) {
    return perform(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
}

typedef struct pair {
    side ours, theirs;
    shm_link link;
} pair;

static int set_up(void **state) {
    pair *it = calloc(1, sizeof *it);
    assert_non_null(it);
    memset(&script, 0, sizeof script);
    side_open(&it->ours, MEMORY_PLAIN, BYTES, "");
    side_open(&it->theirs, MEMORY_PLAIN, BYTES, "");
    memory_fill(it->ours.memory.base, BYTES, 1);
    link_open(&it->link, &it->ours, &it->theirs);
    *state = it;
    return 0;
}

static int tear_down(void **state) {
    pair *it = *state;
    memset(&script, 0, sizeof script);
    link_close(&it->link);
    side_close(&it->theirs);
    side_close(&it->ours);
    free(it);
    return 0;
}

enum { PIECES = 40 };

/* Pieces of 1000 bytes, in an order of their own; in both directions. */
static void check_pieces(pair *it) {
    kvf_segment segments[PIECES];
    for (uint32_t i = 0; i < PIECES; ++i)
        segments[i] = segment_of(&it->ours, &it->link, i * 2000, (i * 7 % PIECES) * 3000, 1000);
    transfer_all(&it->ours, &it->link, KVF_OP_WRITE, segments, PIECES);
    for (uint32_t i = 0; i < PIECES; ++i)
        assert_memory_equal(it->theirs.memory.base + segments[i].remote_offset,
                            it->ours.memory.base + segments[i].local_offset, 1000);
    memory_fill(it->theirs.memory.base, BYTES, 2);
    transfer_all(&it->ours, &it->link, KVF_OP_READ, segments, PIECES);
    for (uint32_t i = 0; i < PIECES; ++i)
        assert_memory_equal(it->theirs.memory.base + segments[i].remote_offset,
                            it->ours.memory.base + segments[i].local_offset, 1000);
}

static void partial_copy_goes_on_exactly_where_it_stopped(void **state) {
    pair *it = *state;
    const size_t most[] = {1, 17, 999, 1000, 1001, 2500, 39999, 40000};
    for (size_t i = 0; i < sizeof most / sizeof *most; ++i) {
        script.most = most[i];
        check_pieces(it);
    }
    assert_true(script.calls > 80000);
}

static void interrupted_call_is_repeated(void **state) {
    pair *it = *state;
    const int errors[] = {EINTR, EAGAIN};
    for (size_t i = 0; i < 2; ++i) {
        script.error = errors[i];
        script.errors = 5;
        check_pieces(it);
        assert_int_equal(script.errors, 0);
    }
}

static outcome fail_with(pair *it, int error) {
    const kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, 5000);
    script.error = error;
    script.errors = 1000;
    const outcome out = transfer(&it->ours, &it->link, KVF_OP_WRITE, &segment, 1);
    assert_int_equal(out.refused, KVF_OK);
    assert_int_equal(out.bytes, 0);
    assert_non_null(strstr(out.message, "process_vm_writev"));
    return out;
}

static void call_that_is_interrupted_for_ever_is_given_up(void **state) {
    const outcome out = fail_with(*state, EAGAIN);
    assert_int_equal(out.status, KVF_ERR_TRANSPORT);
    assert_in_range(script.calls, 2, 999);
}

static void each_refusal_of_the_kernel_has_its_own_words(void **state) {
    pair *it = *state;
    const struct {
        int error, status;
        const char *words;
    } all[] = {
        {EPERM, KVF_ERR_PERMISSION, "permitted"},
        {ESRCH, KVF_ERR_PEER_LOST, "died"},
        {EFAULT, KVF_ERR_TRANSPORT, "mapped"},
        {ENOMEM, KVF_ERR_TRANSPORT, "memory"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        const outcome out = fail_with(it, all[i].error);
        assert_int_equal(out.status, all[i].status);
        if (strstr(out.message, all[i].words) == NULL)
            fail_msg("\"%s\" says nothing of \"%s\"", out.message, all[i].words);
    }
}

static void call_that_moves_nothing_ends_the_operation(void **state) {
    pair *it = *state;
    const kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, 5000);
    script.nothing = 1;
    const outcome out = transfer(&it->ours, &it->link, KVF_OP_WRITE, &segment, 1);
    assert_int_equal(out.status, KVF_ERR_TRANSPORT);
    assert_int_equal(script.calls, 1);
}

static void failure_in_the_middle_tells_what_was_moved_before(void **state) {
    pair *it = *state;
    /* More pieces than one call takes, and calls that end inside a piece. */
    kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, 10);
    segment.count = 1500;
    segment.local_stride = 20;
    segment.remote_stride = 10;
    for (int good = 0; good < 25; ++good) {
        memset(it->theirs.memory.base, 0, BYTES);
        script = (struct script){.most = 777, .good = good, .error = EFAULT, .errors = 1000};
        const outcome out = transfer(&it->ours, &it->link, KVF_OP_WRITE, &segment, 1);
        const size_t moved = out.bytes;
        /* 14 calls for the 1024 pieces of the first, 7 for the others. */
        assert_int_equal(out.status, good < 21 ? KVF_ERR_TRANSPORT : KVF_OK);
        assert_int_equal(moved, good < 14 ? good * 777 : good < 21 ? 10240 + (good - 14) * 777 : 15000);
        for (size_t i = 0; i < 15000; ++i)
            assert_int_equal(it->theirs.memory.base[i], i < moved ? it->ours.memory.base[i / 10 * 20 + i % 10] : 0);
    }
}

static void nothing_is_copied_when_the_cookie_is_not_found(void **state) {
    pair *it = *state;
    const kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, 5000);
    const struct {
        int error, status;
    } all[] = {{ESRCH, KVF_ERR_PEER_LOST}, {EPERM, KVF_ERR_PERMISSION}, {EFAULT, KVF_ERR_PEER_CLOSED}};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        script.cookie_error = all[i].error;
        const outcome out = transfer(&it->ours, &it->link, KVF_OP_WRITE, &segment, 1);
        assert_int_equal(out.status, all[i].status);
        assert_int_equal(out.bytes, 0);
    }
    assert_int_equal(script.calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(partial_copy_goes_on_exactly_where_it_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(interrupted_call_is_repeated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(call_that_is_interrupted_for_ever_is_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_refusal_of_the_kernel_has_its_own_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(call_that_moves_nothing_ends_the_operation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failure_in_the_middle_tells_what_was_moved_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_copied_when_the_cookie_is_not_found, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
