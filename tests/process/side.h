/* One side in a process of its own: an engine that keeps many rooms going with the other side, and does what the
 * supervisor orders. Whatever is not as it must be ends the process with a sentence and exit code 1. */
#ifndef PROCESS_SIDE_H
#define PROCESS_SIDE_H

#include "common.h"

#include <sys/types.h>

enum { SIDE_PREFILL, SIDE_DECODE };

/* Failures of rooms that are right while they are told so. */
enum {
    MAY_LOSE = 1,  /* KVF_ERR_PEER_LOST */
    MAY_MISS = 2,  /* KVF_ERR_PEER_SILENT */
    MAY_LEAVE = 4, /* KVF_ERR_ABORTED, KVF_ERR_PEER_ABORTED and KVF_ERR_PEER_CLOSED */
    MUST_MISS = 8  /* of rooms that were under way when the peer was stopped */
};

typedef struct side_setup {
    int role;
    uint64_t seed;
    const char *listen;  /* where prefill listens; NULL for decode */
    const char *prefill; /* where decode dials; NULL for prefill */
    const char *options; /* of shm; NULL: none */
    uint32_t heartbeat_ms;
    uint32_t may_fail; /* MAY_… , from the start */
} side_setup;

typedef enum order_kind {
    /* Opens rooms from here on, also again. Answered once `rooms` that were opened since have succeeded and none is
     * left that was opened before; with no rooms at once. */
    ORDER_SERVE,
    /* The peer is dead. Opens none. Answered once all rooms that had it are closed, and their pages reused. */
    ORDER_MOURN,
    /* The peer is stopped. Opens none. Answered once all rooms that had it are at their end. Those whose pages the peer
     * has been told must not be quiesced, nor may they be closed, when it is the one that writes. */
    ORDER_MISS,
    /* The end is near: MAY_LEAVE from here on, none is opened. Answered at once. */
    ORDER_RETIRE,
    /* Ends all rooms and the engine. Answered before the process ends. */
    ORDER_LEAVE,
    /* The same, when the peer has left: every gauge is zero and no descriptor has been added since the start. */
    ORDER_LEAVE_LAST
} order_kind;

typedef struct order {
    uint32_t kind;
    uint32_t rooms;
} order;

typedef struct answer {
    uint64_t succeeded, lost, silent; /* rooms since the process began */
    uint64_t failed_early;            /* rooms that were opened since the last ORDER_SERVE and failed */
    uint32_t quarantined, carried;    /* rooms that are not quiesced; that go on looking for a peer */
    char address[128];                /* of prefill */
} answer;

typedef struct side {
    pid_t pid;
    int socket;
    const char *name;
} side;

/* The first answer comes by itself, when the engine is there. SIGUSR1 makes the process _exit wherever it is. */
void side_start(side *it, const side_setup *setup);
void side_order(const side *it, order_kind kind, uint32_t rooms);

/* In the process: takes orders from the socket until it has left. */
__attribute__((noreturn)) void side_live(int socket, const side_setup *setup);

#endif
