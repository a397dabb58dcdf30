/* A peer's number that now is another process's. The program makes itself a pid namespace for it, where it may say
 * which number comes next without a word in anyone else's. */
#define _GNU_SOURCE
#include "shm_child.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 64 * PAGE };

typedef struct way {
    const char *options;
    memory_kind kind;
} way;

static int namespace_is_ours;

/* A process with the number of one that is gone; -1 when there is none to be had. */
static pid_t fork_as(pid_t pid) {
    FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "w");
    if (last == NULL)
        return -1;
    const int written = fprintf(last, "%d", (int)pid - 1);
    if (fclose(last) != 0 || written < 0)
        return -1;
    const pid_t made = fork();
    if (made == 0) {
        pause();
        _exit(0);
    }
    return made;
}

static void expect_lost(const side *ours, const shm_link *link, uint32_t op) {
    const kvf_segment segment = segment_of(ours, link, 0, 0, BYTES);
    const outcome out = transfer(ours, link, op, &segment, 1);
    assert_int_equal(out.refused == KVF_OK ? out.status : out.refused, KVF_ERR_PEER_LOST);
}

static void process_that_has_the_peers_number_now_is_not_taken_for_it(void **state) {
    const way *by = *state;
    if (!namespace_is_ours) {
        print_message("SKIPPED, IT TAKES ROOT: no pid namespace can be made here\n");
        skip();
    }
    const child_setup setup = {by->kind, BYTES, by->options, NULL};
    child theirs;
    side ours;
    shm_link link;
    assert_true(child_start(&theirs, &setup));
    side_open(&ours, by->kind, BYTES, by->options);
    child_link_open(&link, &ours, &theirs);
    child_kill(&theirs);
    child_reap(&theirs);
    const pid_t other = fork_as(theirs.pid);
    assert_int_equal(other, theirs.pid);

    expect_lost(&ours, &link, KVF_OP_WRITE);
    expect_lost(&ours, &link, KVF_OP_READ);
    kvf_peer *peer = NULL;
    expect_status(KVF_ERR_UNREACHABLE, link_connect(&ours, &theirs.address, &peer));
    shm_ops()->peer_destroy(peer);
    expect_status(KVF_OK, shm_ops()->fence(link.peer));

    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    link_close(&link);
    side_close(&ours);
}

static int run(void) {
    static const way by_map = {"cma=off", MEMORY_SEALED}, by_cma = {"cma=only", MEMORY_SEALED},
                     by_plain = {"", MEMORY_PLAIN};
#define WAY(name, by)                                                                          \
    {                                                                                          \
        "process_that_has_the_peers_number_now_is_not_taken_for_it " name,                     \
            process_that_has_the_peers_number_now_is_not_taken_for_it, NULL, NULL, (void *)&by \
    }
    const struct CMUnitTest tests[] = {WAY("(map)", by_map), WAY("(cma, memfd)", by_cma),
                                       WAY("(cma, plain)", by_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        return run();
    /* The children of this process are of the new namespace, itself is not. */
    const pid_t first = fork();
    if (first < 0)
        return 1;
    if (first == 0) {
        namespace_is_ours = mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                            mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
        return run();
    }
    int status = 0;
    if (waitpid(first, &status, 0) != first || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status);
}
