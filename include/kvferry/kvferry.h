/*
 * kvferry: moves the KV cache of a request from the engine that prefilled it to the engine that decodes it.
 *
 * The whole job, from both sides:
 *
 *   prefill                                      decode
 *   kvf_engine_create(&config, &engine)          kvf_engine_create(&config, &engine)
 *   kvf_engine_load_transport(engine, "shm", 0)  kvf_engine_load_transport(engine, "shm", 0)
 *   kvf_engine_register(engine, tensors, ...)    kvf_engine_register(engine, tensors, ...)
 *   kvf_room_open_sender(engine, id, ...)        kvf_room_open_receiver(engine, prefill, id, ...)
 *   kvf_room_send(engine, room, &chunk) ...      kvf_room_accept(engine, room, lists, ...)
 *   kvf_room_poll(engine, room, &status)         kvf_room_poll(engine, room, &status)
 *   kvf_room_close(engine, room)                 kvf_room_close(engine, room)
 *
 * Rules that hold for every function unless its comment says otherwise:
 *  - any thread may call it, also at the same time as others; it does no network or file input or output and waits
 *    for no peer ("does not block");
 *  - it returns KVF_OK (0), or a number of things, or a negative status; then kvf_last_error() on the same thread is a
 *    sentence with the values in question;
 *  - what the caller passes in is copied before it returns; strings are UTF-8 and end in a zero byte;
 *  - a struct that the caller fills begins with struct_size = sizeof(struct). Zero bytes mean the default. Bytes
 *    behind those that the library knows must be zero, else the call is KVF_ERR_UNSUPPORTED;
 *  - in a child after fork() only kvf_engine_destroy and kvf_bootstrap_stop may be called on what was made before it;
 *    others return KVF_ERR_FORKED.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC, timeouts are milliseconds, sizes are bytes.
 */
#ifndef KVFERRY_KVFERRY_H
#define KVFERRY_KVFERRY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KVF_API __attribute__((visibility("default")))
#else
#define KVF_API
#endif

/* ------------------------------------------------------------------------------------------ status and text */

/* Every status: name, value, text. The values are grouped by what broke: the argument (-1...), the room (-20...),
 * the peer (-40...), the transport (-60...), the engine (-80...). */
#define KVF_STATUS_MAP(X)                                                           \
    X(OK, 0, "ok")                                                                  \
    X(ERR_INVALID, -1, "invalid argument")                                          \
    X(ERR_EMPTY, -2, "null or zero-length memory")                                  \
    X(ERR_RANGE, -3, "address range wraps or is outside its allocation")            \
    X(ERR_DUPLICATE, -4, "the same (group, layer, part) twice")                     \
    X(ERR_OVERLAP, -5, "overlapping tensors disagree")                              \
    X(ERR_PAGE, -6, "page index outside a tensor")                                  \
    X(ERR_OPTION, -7, "option does not parse")                                      \
    X(ERR_UNSUPPORTED, -8, "not supported by this library or plugin")               \
    X(ERR_GROUP, -9, "no tensor of that group is registered")                       \
    X(ERR_STALE, -20, "stale room handle")                                          \
    X(ERR_FOREIGN, -21, "room handle of another engine")                            \
    X(ERR_EXISTS, -22, "a live room has that id")                                   \
    X(ERR_BUSY, -23, "still in use")                                                \
    X(ERR_STATE, -24, "call does not fit the room's role or state")                 \
    X(ERR_AFTER_LAST, -25, "chunk after the last one")                              \
    X(ERR_LENGTH, -26, "index lists differ in length from what the peer offered")   \
    X(ERR_AGAIN, -27, "full for now, nothing was taken; try again")                 \
    X(ERR_ABORTED, -28, "aborted on this side")                                     \
    X(ERR_WAIT_DEADLINE, -29, "the deadline for the transfer to begin passed")      \
    X(ERR_TRANSFER_DEADLINE, -30, "the deadline for the transfer passed")           \
    X(ERR_UNCLAIMED, -31, "no room of the prefill side took the offer")             \
    X(ERR_TIMEOUT, -32, "the wait ended before the room did")                       \
    X(ERR_BOOTSTRAP, -40, "the peer could not be found before the deadline")        \
    X(ERR_PEER_LOST, -41, "connection to the peer lost")                            \
    X(ERR_PEER_SILENT, -42, "peer stopped answering")                               \
    X(ERR_LAYOUT, -43, "layouts of the two engines do not match")                   \
    X(ERR_PROTOCOL, -44, "peer broke the protocol")                                 \
    X(ERR_PEER_ABORTED, -45, "aborted by the peer")                                 \
    X(ERR_PEER_CLOSED, -46, "peer's engine was closed")                             \
    X(ERR_NO_TRANSPORT, -60, "no such transport, or none in common")                \
    X(ERR_PLUGIN_ABI, -61, "plugin of another ABI")                                 \
    X(ERR_TRANSPORT, -62, "transport operation failed")                             \
    X(ERR_UNREACHABLE, -63, "transport does not reach the peer")                    \
    X(ERR_PERMISSION, -64, "transport is not permitted to reach the peer's memory") \
    X(ERR_CANCELLED, -65, "transport operation cancelled")                          \
    X(ERR_NO_MEMORY, -80, "out of memory")                                          \
    X(ERR_FORKED, -81, "engine was made before fork")                               \
    X(ERR_ADDRESS_IN_USE, -82, "address or port in use")                            \
    X(ERR_SYSTEM, -83, "system call failed")                                        \
    X(ERR_CLOSED, -84, "engine is closing")                                         \
    X(ERR_FULL, -85, "no free room slot")                                           \
    X(ERR_INTERNAL, -86, "internal error")

enum {
#define KVF_STATUS_ENUM(name, value, text) KVF_##name = (value),
    KVF_STATUS_MAP(KVF_STATUS_ENUM)
#undef KVF_STATUS_ENUM
};

/* Text of a status, never NULL. The string is static. */
KVF_API const char *kvf_strerror(int status);

/* Name of a status as it stands above ("KVF_ERR_PAGE"), "KVF_ERR_?" for an unknown one. Static. */
KVF_API const char *kvf_status_name(int status);

/* The sentence of the calling thread's last failed call, "" when there was none; calls that succeed leave it as it is.
 * Valid until that thread's next call. */
KVF_API const char *kvf_last_error(void);

/* The library's version. KVF_VERSION is that of the header; a program may compare the two. */
#define KVF_VERSION_MAJOR 0
#define KVF_VERSION_MINOR 1
#define KVF_VERSION_PATCH 0
#define KVF_VERSION ((KVF_VERSION_MAJOR << 16) | (KVF_VERSION_MINOR << 8) | KVF_VERSION_PATCH)
KVF_API uint32_t kvf_version(void);
KVF_API const char *kvf_version_string(void);

enum { KVF_LOG_ERROR = 1, KVF_LOG_WARN = 2, KVF_LOG_INFO = 3, KVF_LOG_DEBUG = 4 };

/* Called with each log line at or below the level; from any thread, one call at a time. It must not call kvferry. */
typedef void (*kvf_log_fn)(void *user, int32_t level, const char *message);

/* Replaces where log lines go, for the whole process. A NULL fn restores the default: standard error. level 0 keeps
 * the configured one (KVF_LOG). When it returns, the earlier fn is not running and will not be called again. */
KVF_API int kvf_log_set(kvf_log_fn fn, void *user, int32_t level);

/* --------------------------------------------------------------------------------------------------- engine */

typedef struct kvf_engine kvf_engine;

enum { KVF_ROLE_PREFILL = 1, KVF_ROLE_DECODE = 2, KVF_ROLE_BOTH = 3 /* either, to other engines */ };

/* Where a value is zero or NULL the variable in brackets holds, and without it the default in brackets. A value outside
 * the variable's range (docs/guide.md) is KVF_ERR_INVALID. */
typedef struct kvf_engine_config {
    uint32_t struct_size;
    uint32_t role;             /* KVF_ROLE_… ; required */
    const char *name;          /* for logs and the peer's sentences ["engine"] */
    const char *listen;        /* control address: "tcp://host:port" (port 0: any), "unix:///path"
                                  [KVF_LISTEN, "tcp://127.0.0.1:0"]; decode does not listen. Peers prove nothing of
                                  themselves yet: a TCP address that other hosts reach is KVF_ERR_INVALID unless
                                  the environment's KVF_TRUST_NETWORK=1 says that only trusted ones do */
    const char *bootstrap;     /* "host:port" or "http://host:port" of the bootstrap server that a prefill engine
                                  registers with; NULL: none, peers are given kvf_engine_address() */
    uint32_t shards;           /* worker threads [KVF_SHARDS, min(4, cores)]; at most 256 */
    uint32_t max_rooms;        /* room slots, 64 bytes each [KVF_MAX_ROOMS, 131072]; at most 2^24 */
    uint32_t inbox;            /* queued calls a shard holds before KVF_ERR_AGAIN [KVF_INBOX, 65536] */
    uint32_t window_ops;       /* batches in flight per shard; one room has at most half of what others leave
                                  [KVF_WINDOW_OPS, 64] */
    uint64_t window_bytes;     /* bytes in flight per shard, likewise [KVF_WINDOW_BYTES, 64 MiB] */
    uint32_t bootstrap_ms;     /* deadline to find and agree with the peer [KVF_BOOTSTRAP_MS, 300000] */
    uint32_t waiting_ms;       /* deadline from then to the first chunk [KVF_WAITING_MS, 300000] */
    uint32_t transfer_ms;      /* deadline from then to the end [KVF_TRANSFER_MS, 300000] */
    uint32_t heartbeat_ms;     /* a silent peer is asked after one such time and after two, and lost after three
                                  [KVF_HEARTBEAT_MS, 5000] */
    uint32_t max_unclaimed;    /* offers kept for rooms that prefill has not opened, and at most 64 MiB of them a
                                  shard [KVF_MAX_UNCLAIMED, 65536] */
    uint32_t tp_rank, tp_size; /* this rank's place, as published to the bootstrap server; a size of 0 is 1 */
    uint32_t pp_rank, pp_size;
    uint32_t dp_rank, dp_size;
    uint32_t page_tokens;       /* tokens a page, published to the bootstrap server; not interpreted */
    const char *kv_cache_dtype; /* published likewise, as SGLang names it; NULL: "auto" */
    uint32_t rank;              /* this engine's global rank, told as the origin of a failure */
    uint32_t reserved;          /* 0 */
} kvf_engine_config;

/* Starts an engine: its control thread and its shards. May block for as long as binding its port takes.
 * KVF_ERR_ADDRESS_IN_USE, KVF_ERR_INVALID, KVF_ERR_OPTION (a KVF_… variable that does not parse). The engine is the
 * caller's, who ends it with kvf_engine_destroy. */
KVF_API int kvf_engine_create(const kvf_engine_config *config, kvf_engine **engine);

/* Ends an engine. Rooms that are not at their end are aborted, peers are told; blocks up to drain_ms for
 * transfers in flight to quiesce, about half a second more for what peers are told to leave, and as long as the system
 * takes over a host name that is being looked up just then; then closes the transports, which ends what is left. No
 * other call may use the engine from then on. Returns KVF_ERR_BUSY when rooms were not quiesced in time: peers may then
 * still write into memory that they have mapped; the engine is gone all the same. NULL is KVF_OK. */
KVF_API int kvf_engine_destroy(kvf_engine *engine, uint32_t drain_ms);

/* The control address that peers dial, "tcp://127.0.0.1:40123"; "" for an engine that does not listen, and with a
 * sentence in kvf_last_error for NULL or after a fork. The string lives as long as the engine. */
KVF_API const char *kvf_engine_address(kvf_engine *engine);

/* Loads a transport plugin by name and opens an instance of it; options are the plugin's own, "key=value,key=value".
 * May block as long as the plugin takes to load and open. The prefill engine's transports are preferred, in the order
 * they were loaded there. KVF_ERR_NO_TRANSPORT or KVF_ERR_PLUGIN_ABI: the sentence lists every file looked at and why
 * it was refused. KVF_ERR_EXISTS: it is loaded. KVF_ERR_OPTION: the sentence names the option. KVF_ERR_INVALID: no
 * plugin can have that name. KVF_ERR_UNSUPPORTED: the plugin is of another kind. A name of the form "fault+shm" loads
 * the decorator fault over the transport shm. */
KVF_API int kvf_engine_load_transport(kvf_engine *engine, const char *name, const char *options);

/* Unloads it: new rooms no longer use it; blocks up to drain_ms until its rooms have ended and its peers are gone.
 * KVF_ERR_BUSY: rooms still use it, it stays loaded but takes no new rooms; call again. KVF_ERR_NO_TRANSPORT. Other
 * calls go on meanwhile. */
KVF_API int kvf_engine_unload_transport(kvf_engine *engine, const char *name, uint32_t drain_ms);

/* --------------------------------------------------------------------------------------- memory and tensors */

enum { KVF_MEMORY_HOST = 0 }; /* further kinds come with memory plugins */
enum { KVF_PART_K = 0, KVF_PART_V = 1, KVF_PART_LATENT = 2, KVF_PART_STATE = 3, KVF_PART_AUX = 4 };

/* One buffer of pages. (group, layer, part) names it on both sides; tensors of a group share one list of page
 * indices. Page i lies at base + i * page_stride and is page_bytes long.
 *
 * For engines that split pages between ranks a page is rows x axis x unit_bytes, and this rank holds the units
 * [axis_begin, axis_begin + axis_count) of axis_total: page_bytes = rows * axis_count * unit_bytes. All five zero
 * mean one unit, held whole. Today both sides must hold the same interval. */
typedef struct kvf_tensor {
    uint32_t group; /* 0 is the KV cache */
    uint32_t layer; /* global number of the layer */
    uint32_t part;  /* KVF_PART_… or the engine's own; compared, not interpreted */
    uint32_t dtype; /* the engine's own code; compared, not interpreted */
    void *base;
    uint64_t page_count;
    uint64_t page_bytes;
    uint64_t page_stride; /* 0: page_bytes */
    uint64_t rows;
    uint64_t axis_begin, axis_count, axis_total;
    uint64_t unit_bytes;
    uint32_t memory_kind; /* KVF_MEMORY_… */
    uint32_t device;      /* of that kind */
} kvf_tensor;

/* Allocates zeroed host memory that peers on this host can map, so that the shm transport copies straight into it.
 * Page-aligned, a multiple of the page size; in huge pages where the kernel has them, and then the kernel finds and
 * zeroes all of it in the call. May block for as long as that takes. */
KVF_API int kvf_memory_alloc(kvf_engine *engine, size_t bytes, void **memory);

/* Frees it; NULL is KVF_OK. KVF_ERR_INVALID: not from kvf_memory_alloc of this engine. KVF_ERR_BUSY: a registered
 * tensor lies in it. What is left is freed by kvf_engine_destroy. */
KVF_API int kvf_memory_free(kvf_engine *engine, void *memory);

/* Registers tensors and publishes them to peers, now and later ones: all of the call or none. The memory stays the
 * caller's and must stay valid until kvf_engine_destroy has returned. stride is the distance of two tensors in
 * bytes, sizeof(kvf_tensor). Blocks while the transports register the memory. The first call makes a prefill engine
 * known to its bootstrap server, so register everything in one call where possible.
 * KVF_ERR_EMPTY, KVF_ERR_RANGE, KVF_ERR_DUPLICATE, KVF_ERR_OVERLAP, KVF_ERR_INVALID, KVF_ERR_UNSUPPORTED. */
KVF_API int kvf_engine_register(kvf_engine *engine, const kvf_tensor *tensors, size_t count, size_t stride);

/* ---------------------------------------------------------------------------------------------------- rooms */

/* A room's handle: slot, engine and generation. Zero is never a room. Stale handles are errors, never another room. */
typedef struct kvf_room {
    uint64_t value;
} kvf_room;

/* A room's state; a minimum over ranks is the state of the group. */
enum {
    KVF_STATE_FAILED = 0,
    KVF_STATE_BOOTSTRAPPING = 1, /* looking for the peer, agreeing with it */
    KVF_STATE_WAITING = 2,       /* WaitingForInput: decode may accept; prefill has every receiver's pages */
    KVF_STATE_TRANSFERRING = 3,
    KVF_STATE_SUCCESS = 4
};

enum {
    KVF_ROOM_QUIESCED = 1 /* nothing will read or write this room's pages any more: they may be reused */
};

typedef struct kvf_room_status {
    uint32_t struct_size;
    uint32_t state; /* KVF_STATE_… */
    uint32_t flags; /* KVF_ROOM_… */
    int32_t code;   /* first cause of a failure, else KVF_OK */
} kvf_room_status;

typedef struct kvf_sender_options {
    uint32_t struct_size;
    uint32_t receivers;    /* decode engines that will claim this room [1], at most 64 */
    uint32_t bootstrap_ms; /* until every receiver has offered its pages, then KVF_ERR_BOOTSTRAP; 0: the engine's
                              waiting_ms */
    uint32_t waiting_ms;   /* 0: the engine's */
    uint32_t transfer_ms;  /* 0: the engine's */
    uint32_t priority;     /* 0; others are KVF_ERR_UNSUPPORTED */
} kvf_sender_options;

enum {
    KVF_DP_BY_ROOM = 0, /* room id modulo the prefill side's dp_size */
    KVF_DP_GIVEN = 1,   /* dp_rank below */
    KVF_DP_ASK = 2      /* as registered for the room at the bootstrap server */
};

typedef struct kvf_receiver_options {
    uint32_t struct_size;
    uint32_t dp_choice; /* KVF_DP_… */
    uint32_t dp_rank;
    uint32_t bootstrap_ms; /* 0: the engine's */
    uint32_t waiting_ms;
    uint32_t transfer_ms;
    uint64_t prefix_tokens; /* tokens that this side holds already; told to prefill (kvf_room_report) */
    uint32_t priority;      /* 0 */
    uint32_t reserved;      /* 0 */
} kvf_receiver_options;

/* Prefill: opens room_id for sending. Its state is Bootstrapping until every receiver's offer has come (which may
 * have been before); while it goes on, more receivers than it was opened for are told KVF_ERR_UNCLAIMED. options may be
 * NULL. KVF_ERR_EXISTS: a live sender has that id. KVF_ERR_FULL: every slot has a room. KVF_ERR_AGAIN: a shard's inbox
 * is full, or closed rooms are still being freed. */
KVF_API int kvf_room_open_sender(kvf_engine *engine, uint64_t room_id, const kvf_sender_options *options,
                                 kvf_room *room);

/* Decode: opens room_id at the prefill side: "host:port" of its bootstrap server ("http://" may stand before it), or an
 * engine's own control address (kvf_engine_address). KVF_ERR_INVALID: it is neither. KVF_ERR_EXISTS: a live receiver
 * has that id at that prefill, chosen by the same dp_choice and, where it is given, dp_rank. KVF_ERR_FULL and
 * KVF_ERR_AGAIN as above. */
KVF_API int kvf_room_open_receiver(kvf_engine *engine, const char *prefill, uint64_t room_id,
                                   const kvf_receiver_options *options, kvf_room *room);

/* Page indices of one group, in the order of the sequence. */
typedef struct kvf_index_list {
    uint32_t group;
    uint32_t count;
    const uint32_t *indices;
} kvf_index_list;

/* Decode: says where the pages go; once, any time after the open (it is sent when the peer is ready). The sender's
 * chunks must come to as many pages of each group and layer and name no other group, else the room fails with
 * KVF_ERR_LENGTH. No lists (NULL, 0): nothing is wanted. Until the room is quiesced its pages belong to the library.
 * KVF_ERR_PAGE, KVF_ERR_GROUP, KVF_ERR_DUPLICATE (a group twice), KVF_ERR_INVALID (more than 256 lists, 2^24 pages in
 * all, or 2,000,000 runs of neighbouring pages), KVF_ERR_STATE (a sender, or accepted before, or at its end),
 * KVF_ERR_AGAIN. */
KVF_API int kvf_room_accept(kvf_engine *engine, kvf_room room, const kvf_index_list *lists, size_t count,
                            size_t stride);

enum {
    KVF_CHUNK_LAST = 1 /* no chunk follows; may be empty */
};

enum {
    KVF_FENCE_NONE = 0,
    /* Fires when it is readable; the library reads nothing from it. One that can't be waited for (a file), or whose
     * other end is closed before it fired (a pipe), fails the room with KVF_ERR_INVALID. */
    KVF_FENCE_EVENTFD = 1
};

/* A piece of the room that is computed, or will be when its fence fires. In each layer of the range a list goes on
 * where the room's earlier lists of that group and layer ended. Each group of the chunk must have a tensor in it. */
typedef struct kvf_chunk {
    uint32_t struct_size;
    uint32_t flags; /* KVF_CHUNK_… */
    const kvf_index_list *lists;
    uint32_t list_count;
    uint32_t list_stride; /* sizeof(kvf_index_list) */
    uint32_t layer_begin; /* layers [begin, begin + count); count 0: all */
    uint32_t layer_count;
    uint32_t fence_kind; /* KVF_FENCE_… : no page of the chunk is read before it fires */
    int32_t fence_fd;    /* duplicated before the call returns; 0 or -1 with KVF_FENCE_NONE */
    void *fence;         /* NULL; for fences of memory plugins */
} kvf_chunk;

/* Prefill: enqueues a chunk; any time after the open. Costs the copy of its lists. The pages belong to the library
 * until the room is quiesced. KVF_ERR_PAGE (nothing of the chunk moves), KVF_ERR_GROUP (no tensor of it in the chunk's
 * layers), KVF_ERR_DUPLICATE, KVF_ERR_INVALID (a fence_fd without its fence_kind), KVF_ERR_AFTER_LAST, KVF_ERR_STATE (a
 * receiver, or at its end: then the sentence has the room's own failure), KVF_ERR_AGAIN. */
KVF_API int kvf_room_send(kvf_engine *engine, kvf_room room, const kvf_chunk *chunk);

/* One atomic load: no lock, no system call. KVF_ERR_STALE, KVF_ERR_FOREIGN. */
KVF_API int kvf_room_poll(kvf_engine *engine, kvf_room room, kvf_room_status *status);

/* Polls count rooms. states[i] is the room's KVF_STATE_… with KVF_ROOM_… flags in bits 8 and up, or
 * KVF_POLL_STALE for a handle that is stale or foreign; the call then goes on and returns KVF_ERR_STALE. */
#define KVF_POLL_STALE 0xffffffffu
KVF_API int kvf_room_poll_many(kvf_engine *engine, const kvf_room *rooms, uint32_t *states, size_t count);

/* Blocks until the room is at its end (Success or Failed) or timeout_ms has passed: KVF_ERR_TIMEOUT, with status as
 * it then is. KVF_OK for a failed room, too, quiesced or not: see status. KVF_ERR_STALE also when the room is closed
 * meanwhile. status may be NULL. */
KVF_API int kvf_room_wait(kvf_engine *engine, kvf_room room, uint32_t timeout_ms, kvf_room_status *status);

/* Ends the room as Failed with KVF_ERR_ABORTED and tells the peers, who end theirs with KVF_ERR_PEER_ABORTED. KVF_OK
 * also for a room at its end, which stays as it is. reason may be NULL; 255 bytes of it are kept. */
KVF_API int kvf_room_abort(kvf_engine *engine, kvf_room room, const char *reason);

/* Frees a room that is at its end and quiesced; the handle is stale from then on and the id may be opened again.
 * KVF_ERR_BUSY: not yet. */
KVF_API int kvf_room_close(kvf_engine *engine, kvf_room room);

/* Leaves the room to itself: it is aborted when it is not at its end, and freed once it is quiesced. Until then the
 * handle is valid and its id in use; then it is stale, of which no event tells. */
KVF_API int kvf_room_close_deferred(kvf_engine *engine, kvf_room room);

/* All that is known of a room, for logs, traces and errors. Times are 0 for what has not happened. */
typedef struct kvf_report {
    uint32_t struct_size;
    uint32_t state;
    uint32_t flags;
    int32_t code;
    uint64_t room_id;
    uint64_t peer_instance; /* of the first peer; 0: none yet */
    uint64_t bytes;         /* planned and landed so far; on the receiver 0 until Success */
    uint64_t segments;      /* pieces they moved in */
    uint64_t prefix_tokens; /* of the receivers the least; on the sender known from KVF_STATE_WAITING on */
    uint64_t opened_ns;     /* when the shard took the room */
    uint64_t waiting_ns;    /* entered KVF_STATE_WAITING */
    uint64_t queued_ns;     /* first chunk enqueued (sender), pages accepted (receiver) */
    uint64_t posted_ns;     /* first operation posted (sender), transfer reported begun (receiver) */
    uint64_t landed_ns;     /* last operation completed (sender) */
    uint64_t ended_ns;      /* Success or Failed */
    uint64_t quiesced_ns;
    int32_t rank; /* that the failure came from; -1: none */
    uint32_t reserved;
    char transport[32];
    char message[256]; /* why it failed; of a Bootstrapping receiver: why the last attempt at its peer did; or "" */
} kvf_report;

/* Takes a lock that is held for the copy of a report only. */
KVF_API int kvf_room_report(kvf_engine *engine, kvf_room room, kvf_report *report);

/* --------------------------------------------------------------------------------------------------- events */

enum {
    KVF_EVENT_ROOM = 1 /* the room's state or flags changed; several changes may come as one event */
};

typedef struct kvf_event {
    uint32_t kind;  /* KVF_EVENT_… */
    uint32_t state; /* the room's state, flags and code as the event is read */
    uint32_t flags;
    int32_t code;
    kvf_room room;
    uint64_t room_id;
} kvf_event;

/* Takes up to capacity events; returns their number (0 when timeout_ms has passed) or a negative status. Blocks up to
 * timeout_ms; 0 does not block. Each change of a room is seen by one caller; of a room that was closed nothing more is
 * told. stride is sizeof(kvf_event). */
KVF_API int kvf_engine_events(kvf_engine *engine, kvf_event *events, size_t capacity, size_t stride,
                              uint32_t timeout_ms);

/* A descriptor that is readable while events wait, for epoll and the like; it belongs to the engine and only
 * kvf_engine_events may read it. Returns it, or a negative status. */
KVF_API int kvf_engine_event_fd(kvf_engine *engine);

/* ------------------------------------------------------------------------------------------------- bootstrap */

typedef struct kvf_bootstrap kvf_bootstrap;

typedef struct kvf_bootstrap_config {
    uint32_t struct_size;
    uint32_t max_rooms; /* of /register_dp_rank, the oldest is dropped [65536] */
    const char *listen; /* "host:port", port 0: any ["127.0.0.1:0"]; KVF_TRUST_NETWORK as for engines */
} kvf_bootstrap_config;

/* Starts an HTTP server, on a thread of its own, where prefill ranks register and decode ranks look them up; its routes
 * are SGLang's. config may be NULL. KVF_ERR_ADDRESS_IN_USE, KVF_ERR_INVALID. */
KVF_API int kvf_bootstrap_start(const kvf_bootstrap_config *config, kvf_bootstrap **bootstrap);

/* "127.0.0.1:8998"; lives as long as the server. "" for NULL or after a fork. */
KVF_API const char *kvf_bootstrap_address(kvf_bootstrap *bootstrap);

/* Blocks until its connections are closed. NULL is KVF_OK. */
KVF_API int kvf_bootstrap_stop(kvf_bootstrap *bootstrap);

/* -------------------------------------------------------------------------------------------------- listings */

typedef struct kvf_config_entry {
    const char *name; /* KVF_… ; static, as the two below */
    const char *default_value;
    const char *description;
    char value[120];
    char source[40]; /* "default", "environment", "environment (does not parse)", "environment (nothing reads it)" */
} kvf_config_entry;

/* Fills up to capacity entries: the configuration table, then each KVF_… of the environment that nothing reads, neither
 * the library nor a plugin that is found; returns how many there are, or a negative status. Of this listing and the two
 * below: stride is the caller's sizeof of an entry, and what an entry has beyond that is left out. */
KVF_API int kvf_config_list(kvf_config_entry *entries, size_t capacity, size_t stride);

enum {
    KVF_PLUGIN_TRANSPORT = 1,
    KVF_PLUGIN_DECORATOR = 2, /* a transport over another one */
    KVF_PLUGIN_MEMORY = 3
};

typedef struct kvf_plugin_info {
    char name[32];
    char path[256];
    char description[128];
    char refused[256];     /* why it is of no use here; "" when it can be loaded */
    uint64_t capabilities; /* KVF_CAP_… of plugin.h */
    uint32_t kind;
    uint32_t abi_major, abi_minor;
    uint32_t reserved;
} kvf_plugin_info;

/* Looks for plugins, loading each for the look; fills up to capacity entries, returns how many there are, or a negative
 * status. Blocks for the loading. */
KVF_API int kvf_plugin_list(kvf_plugin_info *plugins, size_t capacity, size_t stride);

typedef struct kvf_counter {
    const char *name; /* static */
    uint64_t value;
} kvf_counter;

/* Fills up to capacity counters; returns how many there are, or a negative status. Gauges begin with "open_". */
KVF_API int kvf_engine_counters(kvf_engine *engine, kvf_counter *counters, size_t capacity, size_t stride);

#ifdef __cplusplus
}
#endif
#endif
