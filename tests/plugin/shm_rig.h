/* What the tests of the shm plugin stand on: a host for it, and sides: an instance with one region and one lane. Two
 * sides may be of one process or, with shm_child.h, of two. */
#ifndef SHM_RIG_H
#define SHM_RIG_H

#include <kvferry/plugin.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the three above it first. */
#include <cmocka.h>

enum { BLOB_BYTES = 512, PAGE = 4096 };

/* ------------------------------------------------------------------------------------------------- the plugin */

/* The table, loaded once; its host is the functions below. */
const kvf_plugin *shm_plugin(void);
const kvf_transport_ops *shm_ops(void);
/* What the host looks like to a plugin; a test may hand a changed copy to a query of its own. */
const kvf_host *shm_host(void);
int shm_query(const kvf_host *host, kvf_plugin *plugin);

/* What was last said with host->fail. */
const char *shm_sentence(void);
/* The value of KVF_<name> from here on, NULL for unset; one variable at a time. */
void shm_set_variable(const char *name, const char *value);

/* Fails the test, with the plugin's sentence, when a call returns another status than this one. */
#define expect_status(expected, call) shm_expect((expected), (call), #call, __FILE__, __LINE__)
void shm_expect(int expected, int status, const char *call, const char *file, int line);
/* Fails the test when the last sentence lacks the words. */
#define expect_words(words) shm_expect_words((words), __FILE__, __LINE__)
void shm_expect_words(const char *words, const char *file, int line);

/* ------------------------------------------------------------------------------------------------------ memory */

typedef enum memory_kind {
    MEMORY_SEALED, /* a memfd sealed against shrinking, as kvf_memory_alloc gives */
    MEMORY_LOOSE,  /* a memfd without seals */
    MEMORY_PLAIN   /* the caller's own, without a memfd */
} memory_kind;

typedef struct memory {
    unsigned char *base;
    size_t size;
    int fd;
} memory;

memory memory_new(memory_kind kind, size_t size);
void memory_free(memory *it);
/* Bytes that depend on their place and on the seed. */
void memory_fill(unsigned char *at, size_t size, uint32_t seed);
uint64_t memory_checksum(const unsigned char *at, size_t size);

/* -------------------------------------------------------------------------------------------------------- sides */

typedef struct blob {
    unsigned char bytes[BLOB_BYTES];
    size_t size;
    uint64_t instance; /* of an address: the engine that the one who sent it says to be */
} blob;

typedef struct side {
    uint64_t id; /* of the engine */
    kvf_instance *instance;
    memory memory;
    kvf_region *region;
    kvf_lane *lane;
    blob address, key;
} side;

void side_open(side *it, memory_kind kind, size_t size, const char *options);
/* Opens an instance alone and closes it again; returns what open returned. */
int side_try_open(const char *options);
/* The parts of side_open and side_close, for a test that wants them apart. */
void side_close_instance(side *it);
void side_close(side *it);
int side_register(const side *it, const memory *of, uint64_t fd_offset, uint64_t length, kvf_region **region);
blob side_export(const side *it, kvf_region *region);

/* Another side, as one side sees it. */
typedef struct shm_link {
    kvf_peer *peer;
    kvf_remote *remote;
    kvf_peer *back; /* us, as the other side sees us; NULL when it lives in another process */
} shm_link;

int link_create(const side *from, const blob *address, kvf_peer **peer);
blob link_greeting(kvf_peer *peer);
int link_greet(kvf_peer *peer, const blob *greeting);
/* Creates, and connects with a greeting that is nobody's; what went wrong first. The peer is there whenever create
 * succeeded. */
int link_connect(const side *from, const blob *address, kvf_peer **peer);
/* Both sides create and connect; a failure fails the test. */
void link_meet(shm_link *it, const side *from, const side *to);
/* The same, and imports the key. */
void link_open(shm_link *it, const side *from, const side *to);
int link_import(shm_link *it, const blob *key);
/* Of the other side alone, which is about to be closed. */
void link_part(shm_link *it);
void link_close(shm_link *it);

uint64_t side_counter(const side *it, const char *name);

/* --------------------------------------------------------------------------------------------------- transfers */

kvf_segment segment_of(const side *local, const shm_link *remote, uint64_t local_offset, uint64_t remote_offset,
                       uint64_t length);

typedef struct outcome {
    int refused;    /* what post returned, if not KVF_OK */
    int status;     /* the first completion's that is not KVF_OK */
    uint64_t bytes; /* of all completions */
    uint32_t posts;
    char message[512]; /* of that completion */
} outcome;

/* Posts until all segments are accepted or one fails, polling after each post. */
outcome transfer(const side *from, const shm_link *to, uint32_t op, const kvf_segment *segments, uint32_t count);
/* The same; a failure fails the test. */
void transfer_all(const side *from, const shm_link *to, uint32_t op, const kvf_segment *segments, uint32_t count);

#endif
