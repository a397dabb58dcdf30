/* What the kernel does not permit: said at connect, with what would change it, and worked around where there is another
 * way. */
#define _GNU_SOURCE
#include "shm_child.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 16 * PAGE, THEIR_UID = 54321, OUR_UID = 54322 };

static int need_root(void) {
    if (geteuid() == 0)
        return 1;
    print_message("SKIPPED, IT TAKES ROOT: a process cannot be given another uid here\n");
    return 0;
}

static int become(uid_t uid) {
    return setresgid(uid, uid, uid) | setresuid(uid, uid, uid);
}

/* A change of uid leaves a process that is not dumpable, which is closed to all but root. */
static int become_their_uid_closed(void) {
    return become(THEIR_UID) | prctl(PR_SET_DUMPABLE, 0);
}

static int become_their_uid(void) {
    return become(THEIR_UID) | prctl(PR_SET_DUMPABLE, 1);
}

static int become_our_uid(void) {
    return become(OUR_UID);
}

/* Theirs for files, ours for ptrace: what a Yama scope of 1 makes of two processes of one uid. */
static int become_their_uid_for_files(void) {
    if (setresgid(THEIR_UID, THEIR_UID, THEIR_UID) != 0 || setresuid(OUR_UID, OUR_UID, THEIR_UID) != 0)
        return -1;
    setfsuid(THEIR_UID);
    return setfsuid(THEIR_UID) == THEIR_UID ? 0 : -1;
}

/* As root in a container may be: to attach is permitted, to look into another user's folders is not. */
static int keep_only_ptrace(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
    if (prctl(PR_SET_KEEPCAPS, 1) != 0 || become(OUR_UID) != 0)
        return -1;
    data[0].effective = data[0].permitted = 1u << CAP_SYS_PTRACE;
    return (int)syscall(SYS_capset, &header, data);
}

/* What a container's seccomp profile does. */
static int forbid_cross_memory_attach(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* ------------------------------------------------------------------------------------------------- the scene
 * Two children: theirs has the memory, ours looks for it. Both are children because one cannot become again what one
 * was. */

static int as_it_is(void) {
    return 0;
}

/* What ours found, in memory that the test sees too. */
static struct found {
    int connect, import, copy;
    uint64_t mapped;
    char sentence[1024];
} * found;

/* For ours, which is forked when theirs is set, and what it has. */
static child *theirs;
static const char *options;
static side ours;
static shm_link our_link;
static blob their_greeting;

/* While both may still do everything: an answer from them, so that the rest is only ours to do. */
static int meet(void) {
    side_open(&ours, MEMORY_PLAIN, BYTES, options);
    memory_fill(ours.memory.base, BYTES, 3);
    if (link_create(&ours, &theirs->address, &our_link.peer) != KVF_OK)
        return -1;
    const blob greeting = link_greeting(our_link.peer);
    their_greeting = child_meet(theirs, &ours.address, &greeting);
    return their_greeting.size == 0;
}

static int look(void) {
    found->connect = link_greet(our_link.peer, &their_greeting);
    if (found->connect == KVF_OK)
        found->import = link_import(&our_link, &theirs->key);
    snprintf(found->sentence, sizeof found->sentence, "%s", shm_sentence());
    if (found->connect != KVF_OK || found->import != KVF_OK)
        return 0;
    const kvf_segment segment = segment_of(&ours, &our_link, 0, 0, BYTES);
    const outcome out = transfer(&ours, &our_link, KVF_OP_WRITE, &segment, 1);
    found->copy = out.refused != KVF_OK ? out.refused : out.status;
    found->mapped = side_counter(&ours, "map_bytes");
    return 0;
}

/* Plays the scene; the test is skipped when one of them cannot become what it should. */
static void play(memory_kind kind, int (*them)(void), int (*us)(void), const char *given) {
    const child_setup their_setup = {kind, BYTES, "", NULL}, our_setup = {MEMORY_PLAIN, PAGE, "", NULL};
    child it, ours_child;
    memset(found, 0, sizeof *found);
    assert_true(child_start(&it, &their_setup));
    theirs = &it;
    options = given;
    assert_true(child_start(&ours_child, &our_setup));
    assert_int_equal(child_run(&ours_child, meet), 0);
    const int able = child_run(&it, them) == 0 && child_run(&ours_child, us) == 0;
    if (able)
        child_run(&ours_child, look);
    if (able && found->connect == KVF_OK && found->import == KVF_OK && found->copy == KVF_OK) {
        memory expected = memory_new(MEMORY_PLAIN, BYTES);
        memory_fill(expected.base, BYTES, 3);
        assert_int_equal(child_checksum(&it, 0, BYTES), memory_checksum(expected.base, BYTES));
        memory_free(&expected);
    }
    child_stop(&ours_child);
    child_stop(&it);
    if (!able) {
        print_message("SKIPPED: a process cannot be made what the test needs here\n");
        skip();
    }
}

static void expect_found(const char *words) {
    if (strstr(found->sentence, words) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", found->sentence, words);
}

static void expect_copied(int by_map) {
    if (found->connect != KVF_OK || found->import != KVF_OK)
        fail_msg("connect %d, import %d: %s", found->connect, found->import, found->sentence);
    assert_int_equal(found->copy, KVF_OK);
    assert_int_equal(found->mapped, by_map ? BYTES : 0);
}

/* ------------------------------------------------------------------------------------------------------ tests */

static void process_of_the_same_user_is_reached_without_privileges(void **state) {
    (void)state;
    if (!need_root())
        skip();
    play(MEMORY_SEALED, become_their_uid, become_their_uid, "");
    expect_copied(1);
    play(MEMORY_PLAIN, become_their_uid, become_their_uid, "");
    expect_copied(0);
}

static void process_of_another_user_is_refused_with_what_would_allow_it(void **state) {
    (void)state;
    if (!need_root())
        skip();
    const char *ways[] = {"", "cma=only", "cma=off"};
    for (size_t i = 0; i < 3; ++i) {
        play(MEMORY_SEALED, become_their_uid_closed, become_our_uid, ways[i]);
        assert_int_equal(found->connect, KVF_ERR_PERMISSION);
        expect_found("we are of uid 54322");
        expect_found("the same uid and a dumpable process, or CAP_SYS_PTRACE");
        expect_found("seccomp");
        expect_found("/proc/<pid>/fd");
    }
}

static void undumpable_process_of_the_same_user_is_refused(void **state) {
    (void)state;
    if (!need_root())
        skip();
    play(MEMORY_SEALED, become_their_uid_closed, become_their_uid, "");
    assert_int_equal(found->connect, KVF_ERR_PERMISSION);
    expect_found("it is of uid 54321 and not dumpable, we are of uid 54321");
}

static void without_cross_memory_attach_memfds_are_reached_all_the_same(void **state) {
    (void)state;
    play(MEMORY_SEALED, as_it_is, forbid_cross_memory_attach, "");
    expect_copied(1);
}

static void without_cross_memory_attach_other_memory_is_refused_with_the_reason(void **state) {
    (void)state;
    play(MEMORY_PLAIN, as_it_is, forbid_cross_memory_attach, "");
    assert_int_equal(found->connect, KVF_OK);
    assert_int_equal(found->import, KVF_ERR_PERMISSION);
    expect_found("process_vm_readv");
    expect_found("kvf_memory_alloc");
    expect_found("seccomp");
    play(MEMORY_SEALED, as_it_is, forbid_cross_memory_attach, "cma=only");
    assert_int_equal(found->connect, KVF_ERR_PERMISSION);
    expect_found("map=off or cma=only");
}

static void where_only_files_may_be_opened_memfds_are_reached(void **state) {
    (void)state;
    if (!need_root())
        skip();
    play(MEMORY_SEALED, become_their_uid, become_their_uid_for_files, "");
    expect_copied(1);
    play(MEMORY_PLAIN, become_their_uid, become_their_uid_for_files, "");
    assert_int_equal(found->import, KVF_ERR_PERMISSION);
}

static void where_files_may_not_be_opened_the_descriptor_is_fetched(void **state) {
    (void)state;
    if (!need_root())
        skip();
    play(MEMORY_SEALED, become_their_uid_closed, keep_only_ptrace, "cma=off");
    expect_copied(1);
}

static void memory_without_memfd_is_refused_where_only_mapping_is_on(void **state) {
    (void)state;
    play(MEMORY_PLAIN, as_it_is, as_it_is, "cma=off");
    assert_int_equal(found->connect, KVF_OK);
    assert_int_equal(found->import, KVF_ERR_UNSUPPORTED);
    expect_found("cma=off");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_of_the_same_user_is_reached_without_privileges),
        cmocka_unit_test(process_of_another_user_is_refused_with_what_would_allow_it),
        cmocka_unit_test(undumpable_process_of_the_same_user_is_refused),
        cmocka_unit_test(without_cross_memory_attach_memfds_are_reached_all_the_same),
        cmocka_unit_test(without_cross_memory_attach_other_memory_is_refused_with_the_reason),
        cmocka_unit_test(where_only_files_may_be_opened_memfds_are_reached),
        cmocka_unit_test(where_files_may_not_be_opened_the_descriptor_is_fetched),
        cmocka_unit_test(memory_without_memfd_is_refused_where_only_mapping_is_on),
    };
    found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return found == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
