/* A side that lives in a process of its own and does what it is told through a socket. Nothing here waits for time to
 * pass: each order is answered. */
#ifndef SHM_CHILD_H
#define SHM_CHILD_H

#include "shm_rig.h"

#include <sys/types.h>

typedef struct child_setup {
    memory_kind kind;
    size_t size;
    const char *options;
    /* Runs in the child before it opens anything; NULL: nothing. Anything but 0 and the child is not there. */
    int (*prepare)(void);
} child_setup;

typedef struct child {
    pid_t pid;
    int socket;
    blob address, key;
} child;

/* False when prepare failed. Call it while the process has one thread. */
int child_start(child *it, const child_setup *setup);
/* Lets it end, if it still lives, and reaps it. */
void child_stop(child *it);
/* Kills it and returns when it is dead; child_reap then takes it off the process table. */
void child_kill(child *it);
void child_reap(child *it);

/* Orders. */
void child_fill(child *it, uint32_t seed);
uint64_t child_checksum(child *it, uint64_t offset, uint64_t length);
/* Closes its lane, region and instance, and keeps the process and its memory. */
void child_close_instance(child *it);
/* Unmaps a part of its memory. */
void child_unmap(child *it, uint64_t offset, uint64_t length);
/* Runs a function in the child. */
int child_run(child *it, int (*what)(void));
/* Replaces its process by another program that does nothing, with the same pid, and returns when it has. */
void child_exec(child *it);
/* Lets it meet us, as a side of another process, who greets it so; answers with its greeting, of 0 bytes when it could
 * not. */
blob child_meet(child *it, const blob *address, const blob *greeting);
/* As link_open, for a side of ours. */
void child_link_open(shm_link *it, const side *from, child *to);
/* Imports a key of whom it met last, for the copies that follow. */
int child_import(child *it, const blob *key);
/* Copies length bytes by that link; returns what post or the completion says. */
int child_copy(child *it, uint32_t op, uint64_t local_offset, uint64_t remote_offset, uint64_t length);

#endif
