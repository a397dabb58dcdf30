/* Prefill and decode as two engines of this process, with a pool each of pages that are one word. */
#ifndef PROCESS_PAIR_H
#define PROCESS_PAIR_H

#include "common.h"

enum { PAIR_PAGES = 4096, PAIR_PAGE_BYTES = 64 };

typedef struct pair {
    kvf_engine *prefill, *decode;
    unsigned char *from, *to;
} pair;

/* waiting_ms is the engines' own, 0 the default: so long offers and aborts are kept for rooms that are not open. */
void pair_open(pair *it, uint32_t waiting_ms);
/* Everything has to be over. */
void pair_close(pair *it);

/* Both sides of a room of one page; they end by bootstrap_ms when they do not find each other. */
int pair_room(const pair *it, uint64_t room_id, uint32_t bootstrap_ms, kvf_room *sender, kvf_room *receiver);
/* Waits for the end on one side and closes the room; returns its code. */
int pair_end(kvf_engine *engine, kvf_room room);
/* A room that succeeds, with its page there. */
void pair_serve(const pair *it, uint64_t room_id);

#endif
