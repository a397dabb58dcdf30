/* Prefill and decode as two processes under load, one of which is killed, stopped, or ends without a word, round after
 * round. What the other has to do then is in side.h. The same seed gives the same faults; when within a round they
 * come is the scheduler's. */
#define _GNU_SOURCE
#include "side.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SERVED = 20, SILENCE_MS = 40, PATIENCE_MS = 60000, LATEST_US = 20000, EARLIEST_US = 3000 };

typedef struct test {
    enum { KILL, EXIT, STOP } fault;
    int victim; /* SIDE_… */
    uint32_t rounds;
    uint64_t seed;
    int tcp;
    const char *options;
    dice dice;
    side sides[2];
    uint64_t started; /* processes */
    answer last[2];   /* what each said last */
    char folder[64], listen[128];
    uint32_t early, resumed, short_stops, quarantined;
    uint64_t succeeded, lost, silent; /* of processes that are gone, as they last said */
} test;

static test it;
static uint32_t round_number;

__attribute__((noreturn)) static void fail(const char *what, const char *who) {
    fflush(stdout);
    fprintf(stderr, "round %u of seed %llu: %s %s\n", round_number, (unsigned long long)it.seed, who, what);
    for (int i = 0; i < 2; i++)
        if (it.sides[i].pid > 0)
            kill(it.sides[i].pid, SIGKILL);
    unlink(it.listen + strlen("unix://"));
    rmdir(it.folder);
    exit(1);
}

/* The next answer of a side. */
static const answer *hear(int role) {
    struct pollfd source = {it.sides[role].socket, POLLIN, 0};
    /* Longer than the side's own patience: it knows better what is missing. */
    if (poll(&source, 1, 2 * LONG_MS) != 1)
        fail("does not answer", it.sides[role].name);
    if (recv(source.fd, &it.last[role], sizeof it.last[role], 0) != sizeof it.last[role])
        fail("has failed", it.sides[role].name);
    return &it.last[role];
}

static const answer *ask(int role, order_kind kind, uint32_t rooms) {
    side_order(&it.sides[role], kind, rooms);
    return hear(role);
}

static void start(int role) {
    const side_setup setup = {
        .role = role,
        .seed = mix(it.seed, ++it.started),
        .listen = role == SIDE_PREFILL ? it.listen : NULL,
        .prefill = role == SIDE_DECODE ? it.listen : NULL,
        .options = it.options,
        /* Only the one that stays has to find out by itself. */
        .heartbeat_ms = it.fault == STOP && role != it.victim ? SILENCE_MS : PATIENCE_MS,
        .may_fail = it.fault == STOP ? MAY_LOSE | MAY_MISS : MAY_LOSE,
    };
    side_start(&it.sides[role], &setup);
    const answer *there = hear(role);
    if (role == SIDE_PREFILL)
        snprintf(it.listen, sizeof it.listen, "%s", there->address);
}

/* The process is dead, and is taken off the table. */
static void bury(int role) {
    int status = 0;
    const answer *last = &it.last[role];
    if (waitpid(it.sides[role].pid, &status, 0) != it.sides[role].pid)
        fail("is not to be waited for", it.sides[role].name);
    const int failed = WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL;
    it.sides[role].pid = 0;
    close(it.sides[role].socket);
    if (failed)
        fail("has failed", it.sides[role].name);
    it.succeeded += last->succeeded;
    it.lost += last->lost;
    it.silent += last->silent;
}

static void signal_victim(int signal) {
    if (kill(it.sides[it.victim].pid, signal) != 0)
        fail("can't be signalled", it.sides[it.victim].name);
}

/* Some instant: the faults are to hit whatever goes on. */
static void let_pass(uint32_t most_us) {
    const struct timespec time = {0, (long)roll_below(&it.dice, most_us) * 1000};
    nanosleep(&time, NULL);
}

static void both_serve(void) {
    side_order(&it.sides[SIDE_PREFILL], ORDER_SERVE, SERVED);
    side_order(&it.sides[SIDE_DECODE], ORDER_SERVE, SERVED);
    for (int role = 0; role < 2; role++)
        if (hear(role)->failed_early != 0 && it.fault != STOP)
            fail("lost rooms before anything happened", it.sides[role].name);
}

/* ---------------------------------------------------------------------------------------------------------- rounds */

static void die_round(int signal) {
    const int survivor = 1 - it.victim;
    /* One in four comes while the two are still getting to know each other. */
    const int early = roll_below(&it.dice, 4) == 0;
    it.early += (uint32_t)early;
    if (early) {
        ask(survivor, ORDER_SERVE, 0);
        side_order(&it.sides[it.victim], ORDER_SERVE, SERVED);
        let_pass(EARLIEST_US);
    } else {
        both_serve();
        let_pass(LATEST_US);
    }
    signal_victim(signal);
    bury(it.victim);
    ask(survivor, ORDER_MOURN, 0);
    start(it.victim);
}

static void await_stopped(void) {
    int status = 0;
    const pid_t pid = it.sides[it.victim].pid;
    if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
        fail("was not stopped", it.sides[it.victim].name);
}

static void stop_round(void) {
    const int survivor = 1 - it.victim;
    both_serve();
    let_pass(LATEST_US);
    signal_victim(SIGSTOP);
    await_stopped();
    if (roll_below(&it.dice, 4) == 0) {
        /* About as long as the peer is waited for: it goes on while it is given up, or just before. */
        let_pass(5 * SILENCE_MS * 1000);
        signal_victim(SIGCONT);
        it.short_stops++;
        return;
    }
    it.quarantined += ask(survivor, ORDER_MISS, 0)->quarantined;
    if (roll_below(&it.dice, 3) == 0) {
        signal_victim(SIGKILL);
        bury(it.victim);
        ask(survivor, ORDER_MOURN, 0);
        start(it.victim);
    } else {
        signal_victim(SIGCONT);
        it.resumed++;
    }
}

static void part(void) {
    const int survivor = 1 - it.victim;
    both_serve();
    ask(it.victim, ORDER_RETIRE, 0);
    ask(survivor, ORDER_RETIRE, 0);
    ask(it.victim, ORDER_LEAVE, 0);
    bury(it.victim);
    ask(survivor, ORDER_LEAVE_LAST, 0);
    bury(survivor);
}

/* ---------------------------------------------------------------------------------------------------- command line */

__attribute__((noreturn)) static void usage(void) {
    fputs(
        "usage: process_faults --fault kill|exit|stop --victim prefill|decode [--rounds N] [--seed S]\n"
        "                      [--control unix|tcp] [--shm OPTIONS]\n",
        stderr);
    exit(2);
}

static int choose(const char *value, const char *const *names) {
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(value, names[i]) == 0)
            return i;
    usage();
}

static void read_arguments(int count, char **arguments) {
    static const char *const faults[] = {"kill", "exit", "stop", NULL}, *const victims[] = {"prefill", "decode", NULL},
                             *const controls[] = {"unix", "tcp", NULL};
    it.rounds = 20;
    it.seed = mix((uint64_t)time(NULL), (uint64_t)getpid()) % 1000000;
    for (int i = 1; i < count; i += 2) {
        const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : (usage(), "");
        if (strcmp(name, "--fault") == 0)
            it.fault = (unsigned)choose(value, faults);
        else if (strcmp(name, "--victim") == 0)
            it.victim = choose(value, victims);
        else if (strcmp(name, "--rounds") == 0)
            it.rounds = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(name, "--seed") == 0)
            it.seed = strtoull(value, NULL, 10);
        else if (strcmp(name, "--control") == 0)
            it.tcp = choose(value, controls);
        else if (strcmp(name, "--shm") == 0)
            it.options = value;
        else
            usage();
    }
}

int main(int count, char **arguments) {
    const char *where = getenv("TMPDIR");
    const uint64_t began = now_ms();
    read_arguments(count, arguments);
    call_me("supervisor");
    it.dice.state = it.seed;
    printf("seed %llu, %u rounds\n", (unsigned long long)it.seed, it.rounds);
    snprintf(it.folder, sizeof it.folder, "%s/kvf-faults-XXXXXX", where != NULL ? where : "/tmp");
    REQUIRE(mkdtemp(it.folder) != NULL, "no folder %s", it.folder);
    snprintf(it.listen, sizeof it.listen, it.tcp ? "tcp://127.0.0.1:0" : "unix://%s/prefill", it.folder);
    start(SIDE_PREFILL);
    start(SIDE_DECODE);
    for (round_number = 1; round_number <= it.rounds; round_number++) {
        if (it.fault == STOP)
            stop_round();
        else
            die_round(it.fault == KILL ? SIGKILL : SIGUSR1);
    }
    part();
    rmdir(it.folder);
    printf(
        "%llu rooms succeeded, %llu lost their peer, %llu missed it; %u early, %u resumed after their rooms ended "
        "(%u rooms in quarantine), %u before; %llu processes, %.1f s\n",
        (unsigned long long)it.succeeded, (unsigned long long)it.lost, (unsigned long long)it.silent, it.early,
        it.resumed, it.quarantined, it.short_stops, (unsigned long long)it.started, (double)(now_ms() - began) / 1000);
    return 0;
}
