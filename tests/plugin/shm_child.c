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
    ORDER_LINK,
    ORDER_COPY
} order_kind;

typedef struct order {
    order_kind kind;
    uint32_t number;
    uint64_t offset, remote_offset, length;
    int (*what)(void); /* the child is a fork, so code lies at the same place */
    blob address, key;
} order;

typedef struct answer {
    int ready; /* the first answer: the child is there, with these */
    blob address, key;
    uint64_t value;
} answer;

/* ---------------------------------------------------------------------------------------------- in the child */

static int make_link(const side *it, const order *given, shm_link *link) {
    int status = link_connect(it, &given->address, &link->peer);
    if (status == KVF_OK)
        status = shm_ops()->import_key(link->peer, given->key.bytes, given->key.size, &link->remote);
    return status;
}

static int copy(const side *it, const shm_link *link, const order *given) {
    const kvf_segment segment = segment_of(it, link, given->offset, given->remote_offset, given->length);
    const outcome out = transfer(it, link, given->number, &segment, 1);
    return out.refused != KVF_OK ? out.refused : out.status;
}

static uint64_t obey(side *it, shm_link *link, const order *given) {
    switch (given->kind) {
        case ORDER_FILL:
            memory_fill(it->memory.base, it->memory.size, given->number);
            return 0;
        case ORDER_CHECKSUM:
            return memory_checksum(it->memory.base + given->offset, given->length);
        case ORDER_CLOSE_INSTANCE:
            side_close_instance(it);
            return 0;
        case ORDER_UNMAP:
            return (uint64_t)munmap(it->memory.base + given->offset, given->length);
        case ORDER_RUN:
            return (uint64_t)(int64_t)given->what();
        case ORDER_LINK:
            return (uint64_t)(int64_t)make_link(it, given, link);
        case ORDER_COPY:
            return (uint64_t)(int64_t)copy(it, link, given);
        case ORDER_STOP:
            break;
    }
    return 0;
}

static void live(int socket, const child_setup *setup) {
    answer said = {0};
    if (setup->prepare != NULL && setup->prepare() != 0) {
        (void)!write(socket, &said, sizeof said);
        _exit(0);
    }
    side it;
    shm_link link = {NULL, NULL};
    side_open(&it, setup->kind, setup->size, setup->options);
    memset(it.memory.base, 0, it.memory.size);
    said.ready = 1;
    said.address = it.address;
    said.key = it.key;
    order given;
    do {
        if (write(socket, &said, sizeof said) != sizeof said || read(socket, &given, sizeof given) != sizeof given)
            break;
        said.value = obey(&it, &link, &given);
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

static uint64_t tell(child *it, const order *given) {
    assert_int_equal(write(it->socket, given, sizeof *given), sizeof *given);
    return hear(it).value;
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

int child_link(child *it, const blob *address, const blob *key) {
    const order given = {.kind = ORDER_LINK, .address = *address, .key = *key};
    return (int)(int64_t)tell(it, &given);
}

int child_copy(child *it, uint32_t op, uint64_t local_offset, uint64_t remote_offset, uint64_t length) {
    const order given = {
        .kind = ORDER_COPY, .number = op, .offset = local_offset, .remote_offset = remote_offset, .length = length};
    return (int)(int64_t)tell(it, &given);
}
