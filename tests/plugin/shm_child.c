#define _GNU_SOURCE
#include "shm_child.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum order_kind {
    ORDER_STOP,
    ORDER_FILL,
    ORDER_CHECKSUM,
    ORDER_CLOSE_INSTANCE,
    ORDER_UNMAP,
    ORDER_RUN,
    ORDER_EXEC,
    ORDER_MEET,
    ORDER_IMPORT,
    ORDER_COPY
} order_kind;

typedef struct order {
    order_kind kind;
    uint32_t number;
    uint64_t offset, remote_offset, length;
    int (*what)(void); /* the child is a fork, so code lies at the same place */
    blob address, blob;
} order;

enum { MOST_PEERS = 8 };

/* What lives in the child. */
typedef struct life {
    side side;
    shm_link links[MOST_PEERS];
    int count;
} life;

typedef struct answer {
    int ready; /* the first answer: the child is there, with these */
    blob address, key;
    blob greeting;
    uint64_t value;
} answer;

/* ---------------------------------------------------------------------------------------------- in the child */

static blob meet(life *it, const order *given) {
    const blob nothing = {.size = 0};
    assert_true(it->count < MOST_PEERS);
    shm_link *link = &it->links[it->count];
    if (link_create(&it->side, &given->address, &link->peer) != KVF_OK)
        return nothing;
    ++it->count;
    const blob greeting = link_greeting(link->peer);
    return link_greet(link->peer, &given->blob) == KVF_OK ? greeting : nothing;
}

static void close_instance(life *it) {
    while (it->count > 0)
        link_close(&it->links[--it->count]);
    side_close_instance(&it->side);
}

static int copy(life *it, const order *given) {
    const shm_link *link = &it->links[it->count - 1];
    const kvf_segment segment = segment_of(&it->side, link, given->offset, given->remote_offset, given->length);
    const outcome out = transfer(&it->side, link, given->number, &segment, 1);
    return out.refused != KVF_OK ? out.refused : out.status;
}

/* cat, which waits for the other end of a pipe that is its own. */
static void become_another_program(void) {
    int ends[2];
    if (pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO)
        execlp("cat", "cat", (char *)NULL);
    _exit(1);
}

static uint64_t obey(life *it, const order *given, answer *said) {
    side *ours = &it->side;
    switch (given->kind) {
        case ORDER_FILL:
            memory_fill(ours->memory.base, ours->memory.size, given->number);
            return 0;
        case ORDER_CHECKSUM:
            return memory_checksum(ours->memory.base + given->offset, given->length);
        case ORDER_CLOSE_INSTANCE:
            close_instance(it);
            return 0;
        case ORDER_UNMAP:
            return (uint64_t)munmap(ours->memory.base + given->offset, given->length);
        case ORDER_RUN:
            return (uint64_t)(int64_t)given->what();
        case ORDER_EXEC:
            become_another_program();
            return 0;
        case ORDER_MEET:
            said->greeting = meet(it, given);
            return 0;
        case ORDER_IMPORT:
            return (uint64_t)(int64_t)link_import(&it->links[it->count - 1], &given->blob);
        case ORDER_COPY:
            return (uint64_t)(int64_t)copy(it, given);
        case ORDER_STOP:
            break;
    }
    return 0;
}

static void live(int socket, const child_setup *setup) {
    static life it;
    answer said = {0};
    if (setup->prepare != NULL && setup->prepare() != 0) {
        (void)!write(socket, &said, sizeof said);
        _exit(0);
    }
    side_open(&it.side, setup->kind, setup->size, setup->options);
    memset(it.side.memory.base, 0, it.side.memory.size);
    said.ready = 1;
    said.address = it.side.address;
    said.key = it.side.key;
    order given;
    do {
        if (write(socket, &said, sizeof said) != sizeof said || read(socket, &given, sizeof given) != sizeof given)
            break;
        said.value = obey(&it, &given, &said);
    } while (given.kind != ORDER_STOP);
    /* Not exit: what the parent would do at its end is not the child's to do. */
    _exit(0);
}

/* --------------------------------------------------------------------------------------------- in the parent */

static answer hear(child *it) {
    answer said;
    assert_int_equal(read(it->socket, &said, sizeof said), sizeof said);
    return said;
}

static answer ask(child *it, const order *given) {
    assert_int_equal(write(it->socket, given, sizeof *given), sizeof *given);
    return hear(it);
}

static uint64_t tell(child *it, const order *given) {
    return ask(it, given).value;
}

int child_start(child *it, const child_setup *setup) {
    int ends[2];
    shm_ops(); /* loaded before the fork, so that the child need not be able to */
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    it->pid = fork();
    assert_true(it->pid >= 0);
    if (it->pid == 0) {
        close(ends[0]);
        live(ends[1], setup);
    }
    close(ends[1]);
    it->socket = ends[0];
    const answer said = hear(it);
    if (!said.ready) {
        child_reap(it);
        return 0;
    }
    it->address = said.address;
    it->key = said.key;
    return 1;
}

void child_stop(child *it) {
    const order given = {.kind = ORDER_STOP};
    /* It may be dead already. */
    (void)!send(it->socket, &given, sizeof given, MSG_NOSIGNAL);
    child_reap(it);
}

void child_kill(child *it) {
    siginfo_t info;
    assert_int_equal(kill(it->pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)it->pid, &info, WEXITED | WNOWAIT), 0);
}

void child_reap(child *it) {
    close(it->socket);
    assert_int_equal(waitpid(it->pid, NULL, 0), it->pid);
}

void child_fill(child *it, uint32_t seed) {
    const order given = {.kind = ORDER_FILL, .number = seed};
    tell(it, &given);
}

uint64_t child_checksum(child *it, uint64_t offset, uint64_t length) {
    const order given = {.kind = ORDER_CHECKSUM, .offset = offset, .length = length};
    return tell(it, &given);
}

void child_close_instance(child *it) {
    const order given = {.kind = ORDER_CLOSE_INSTANCE};
    tell(it, &given);
}

void child_unmap(child *it, uint64_t offset, uint64_t length) {
    const order given = {.kind = ORDER_UNMAP, .offset = offset, .length = length};
    assert_int_equal(tell(it, &given), 0);
}

int child_run(child *it, int (*what)(void)) {
    const order given = {.kind = ORDER_RUN, .what = what};
    return (int)(int64_t)tell(it, &given);
}

void child_exec(child *it) {
    const order given = {.kind = ORDER_EXEC};
    answer said;
    assert_int_equal(write(it->socket, &given, sizeof given), sizeof given);
    /* Its end of the socket goes with the old program. */
    assert_int_equal(read(it->socket, &said, sizeof said), 0);
    assert_int_equal(kill(it->pid, 0), 0);
}

blob child_meet(child *it, const blob *address, const blob *greeting) {
    const order given = {.kind = ORDER_MEET, .address = *address, .blob = *greeting};
    return ask(it, &given).greeting;
}

void child_link_open(shm_link *it, const side *from, child *to) {
    it->remote = NULL;
    it->back = NULL;
    expect_status(KVF_OK, link_create(from, &to->address, &it->peer));
    const blob ours = link_greeting(it->peer), theirs = child_meet(to, &from->address, &ours);
    expect_status(KVF_OK, link_greet(it->peer, &theirs));
    expect_status(KVF_OK, link_import(it, &to->key));
}

int child_import(child *it, const blob *key) {
    const order given = {.kind = ORDER_IMPORT, .blob = *key};
    return (int)(int64_t)tell(it, &given);
}

int child_copy(child *it, uint32_t op, uint64_t local_offset, uint64_t remote_offset, uint64_t length) {
    const order given = {
        .kind = ORDER_COPY, .number = op, .offset = local_offset, .remote_offset = remote_offset, .length = length};
    return (int)(int64_t)tell(it, &given);
}
