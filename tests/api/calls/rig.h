/* What the tests of the calls stand on: two engines in one process over shm, and checks of statuses with their
 * sentences. Strict C99, as a caller's program may be. */
#ifndef API_RIG_H
#define API_RIG_H

#include <kvferry/kvferry.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the ones above it first. */
#include <cmocka.h>

enum {
    LAYERS = 2,
    PAGES = 64,
    PAGE_BYTES = 512,
    AUX = 1, /* the group of the second kind of pages */
    AUX_PAGES = 8,
    AUX_BYTES = 64,
    MEMORY_BYTES = LAYERS * PAGES * PAGE_BYTES + AUX_PAGES * AUX_BYTES,
    LONG_MS = 60000 /* longer than anything takes; a wait that ends by it fails */
};

/* The call failed with that status, and its sentence has that text in it. */
#define EXPECT_ERROR(call, status, text) expect_error((call), (status), (text), #call, __FILE__, __LINE__)
/* The call succeeded. */
#define EXPECT_OK(call) expect_ok((call), #call, __FILE__, __LINE__)

void expect_error(int got, int status, const char *text, const char *call, const char *file, int line);
void expect_ok(int got, const char *call, const char *file, int line);

typedef struct pair {
    kvf_engine *prefill, *decode;
    unsigned char *from, *to; /* MEMORY_BYTES each: from has random bytes, to is zero */
} pair;

/* What an engine is made with, but for its role. */
kvf_engine_config config_of(uint32_t role);

/* LAYERS tensors of group 0 and one of group AUX over that memory. */
enum { TENSORS = LAYERS + 1 };
void tensors_of(unsigned char *memory, kvf_tensor tensors[TENSORS]);

/* An engine with shm loaded; with memory not NULL, that much is allocated and the tensors are registered in it. */
kvf_engine *engine_open(const kvf_engine_config *config, unsigned char **memory);

/* Both engines. A config that is NULL is config_of. */
void pair_open(pair *it, const kvf_engine_config *prefill, const kvf_engine_config *decode);
/* Every gauge of rooms has to be back at zero. */
void pair_close(pair *it);

unsigned char *page_at(unsigned char *memory, uint32_t layer, uint32_t page);
unsigned char *aux_at(unsigned char *memory, uint32_t page);
/* The pages of the receiver have the bytes of the sender's, in every layer. */
void expect_arrived(const pair *it, const uint32_t *from, const uint32_t *to, uint32_t count);
/* Nothing was written where pages come. */
void expect_untouched(const pair *it);

/* One list of group 0 as an accept or a last chunk. */
int accept_pages(kvf_engine *engine, kvf_room room, const uint32_t *pages, uint32_t count);
int send_pages(kvf_engine *engine, kvf_room room, const uint32_t *pages, uint32_t count, uint32_t flags);
/* A pair of open rooms. */
void open_rooms(const pair *it, uint64_t room_id, kvf_room *sender, kvf_room *receiver);

kvf_room_status status_of(kvf_engine *engine, kvf_room room);
kvf_report report_of(kvf_engine *engine, kvf_room room);
/* Waits for the end, which has to be this one; a failure's code is given, KVF_OK means Success. */
#define EXPECT_END(engine, room, code) expect_end((engine), (room), (code), __FILE__, __LINE__)
void expect_end(kvf_engine *engine, kvf_room room, int code, const char *file, int line);
/* Waits for a state, or for the quiesced bit where state is UINT32_MAX. */
void await(kvf_engine *engine, kvf_room room, uint32_t state);
/* Closes the room as soon as it is quiesced. */
void close_room(kvf_engine *engine, kvf_room room);

uint64_t counter_of(kvf_engine *engine, const char *name);
void await_counter(kvf_engine *engine, const char *name, uint64_t value);
/* A pause in a loop that looks for something to become true; fails the test when the loop went on for too long. */
void look_again(int *looks);

#endif
