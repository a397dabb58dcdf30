/*
 * kvferry's plugin ABI: what a transport implements. A plugin is a shared object <name>.so that exports one symbol,
 * kvf_plugin_query, includes this header, and links nothing of kvferry's. Plain C; every table begins with its size.
 *
 * A transport moves bytes between memory registered here and memory that a peer registered in its own process, by
 * one-sided writes and, where it can, reads. kvferry agrees on who writes where; a transport knows no rooms.
 *
 * How kvferry uses one:
 *
 *   both sides      query, open an instance, register regions, open a lane on every shard
 *   handshake       each side gives the other: address(instance), export_key(region) for each region
 *                   each side: peer_create(its address), peer_export -> the other, peer_connect(the other's export)
 *                   the side that will post: import_key for each of the peer's regions, when both have connected
 *   transfers       post on a lane, poll the lane for completions
 *   end             fence(peer) when it died or fell silent; release_key, peer_destroy, lane_close, deregister, close
 *
 * The contract:
 *  - an operation is the segments accepted by one post call. It ends in exactly one completion on its lane, with its
 *    own outcome, or with the lane. KVF_OK for a write means: every byte is in the peer's memory and visible to a
 * reader there. For a read: in ours;
 *  - after an operation's completion, whatever its outcome, and after its lane was closed, the transport never touches
 *    its memory again;
 *  - operations may complete in any order;
 *  - threads: calls on one lane come from one thread at a time. All others (instance, region, peer, key) come from one
 *    other thread at a time, at the same time as calls on lanes; a peer or key is destroyed only when no lane has an
 *    operation of it in flight or will post one. fence may come while lanes post to that peer;
 *  - no call blocks on a peer for longer than it takes to try, except wait;
 *  - a region is deregistered when no peer posts at it any more, though peers may still hold keys of it;
 *  - a call that fails returns a negative KVF_ERR_… and first words the reason with host->fail;
 *  - no exit, abort, signal handler or exception; descriptors are close-on-exec.
 */
#ifndef KVFERRY_PLUGIN_H
#define KVFERRY_PLUGIN_H

#include <kvferry/kvferry.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A plugin of another major is refused. A minor adds members at the end of tables; missing ones are features that are
 * not there, and members unknown to the host are not called. */
#define KVF_PLUGIN_ABI_MAJOR 1
#define KVF_PLUGIN_ABI_MINOR 0

enum {
    KVF_CAP_WRITE = 1 << 0,   /* post accepts KVF_OP_WRITE; required */
    KVF_CAP_READ = 1 << 1,    /* post accepts KVF_OP_READ; this host posts none yet */
    KVF_CAP_STRIDED = 1 << 2, /* post accepts segments with count > 1 */
    KVF_CAP_CANCEL = 1 << 3,
    KVF_CAP_FENCE = 1 << 4,
    KVF_CAP_WAIT = 1 << 5,
    KVF_CAP_EVENT_FD = 1 << 6,
    KVF_CAP_SAME_HOST = 1 << 7 /* reaches peers of the same host only */
};

/* ----------------------------------------------------------------------------------------- the host's services */

/* Lives as long as the process; every call is for any thread and does not block. */
typedef struct kvf_host {
    uint32_t struct_size;
    uint32_t abi_major, abi_minor;
    uint32_t reserved;
    void (*log)(int32_t level, const char *message);
    /* The sentence for the error that the calling function is about to return; copied. */
    void (*fail)(const char *sentence);
    /* The value of the environment's KVF_<name>, NULL when unset or not to be trusted (set-uid). Static. Marks the
     * variable as one that somebody reads. name is "<PLUGIN>_<KEY>" in capitals. */
    const char *(*config)(const char *name);
    /* "host", "cuda", …; NULL for a kind that no plugin brought. Static. */
    const char *(*memory_kind)(uint32_t kind);
} kvf_host;

/* ------------------------------------------------------------------------------------------------ the objects */

/* The plugin defines these as it likes; the host only holds pointers. */
typedef struct kvf_instance kvf_instance; /* one engine's use of the transport */
typedef struct kvf_region kvf_region;     /* local registered memory */
typedef struct kvf_peer kvf_peer;         /* a remote instance */
typedef struct kvf_remote kvf_remote;     /* a peer's region, as imported from its key */
typedef struct kvf_lane kvf_lane;         /* one thread's private resources */

struct kvf_plugin;

typedef struct kvf_open_params {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t instance_id;           /* random; of the engine */
    const char *options;            /* "key=value,key=value", "" for none; an unknown key is KVF_ERR_OPTION */
    const struct kvf_plugin *inner; /* for a decorator: the transport below, else NULL; lives as long as the instance */
    const char *inner_options;      /* to open it with */
} kvf_open_params;

typedef struct kvf_region_params {
    uint32_t struct_size;
    uint32_t memory_kind; /* KVF_MEMORY_… ; another than the plugin knows is KVF_ERR_UNSUPPORTED */
    uint32_t device;
    int32_t fd; /* a memfd or dma-buf that backs the memory, which base maps shared; -1: none.
                   Open while the region is registered. */
    void *base;
    uint64_t length;
    uint64_t fd_offset; /* of base in fd */
} kvf_region_params;

typedef struct kvf_peer_params {
    uint32_t struct_size;
    uint32_t address_size;
    const void *address; /* what the peer's address() gave; not to be trusted */
    uint64_t instance_id;
    const char *name; /* for sentences */
} kvf_peer_params;

enum { KVF_OP_WRITE = 1, KVF_OP_READ = 2 };

/* Segments and completions come in plain arrays: within a major they do not change.
 *
 * count pieces of length bytes; piece i lies at local_offset + i * local_stride of the local region and at
 * remote_offset + i * remote_stride of the remote one. The host sends none that leaves either region; the transport
 * checks all the same (KVF_ERR_RANGE) and never relies on it. */
typedef struct kvf_segment {
    kvf_region *local;
    kvf_remote *remote;
    uint64_t local_offset;
    uint64_t remote_offset;
    uint64_t length;
    uint64_t count; /* 1 without KVF_CAP_STRIDED; then the strides are 0 */
    uint64_t local_stride;
    uint64_t remote_stride;
} kvf_segment;

typedef struct kvf_completion {
    uint64_t token; /* as given to post */
    int32_t status; /* KVF_OK, KVF_ERR_TRANSPORT, KVF_ERR_CANCELLED, KVF_ERR_PERMISSION; KVF_ERR_PEER_LOST and
                       KVF_ERR_PEER_CLOSED when the transport knows the peer to be gone */
    uint32_t reserved;
    uint64_t bytes;      /* moved for certain */
    const char *message; /* NULL, or why it failed; valid until the next call on the lane */
} kvf_completion;

/* -------------------------------------------------------------------------------------------- the operations */

/* Blobs: *size is the buffer's size on entry and the blob's size on return; KVF_ERR_RANGE with the size needed in *size
 * when the buffer is too small. Blobs from a peer are not to be trusted: anything may stand in them. */
typedef struct kvf_transport_ops {
    uint32_t struct_size;
    uint32_t reserved;

    /* Required. */
    int (*open)(const kvf_open_params *params, kvf_instance **instance);
    void (*close)(kvf_instance *instance); /* peers, regions and lanes are gone by then */
    int (*address)(kvf_instance *instance, void *blob, size_t *size);

    int (*register_region)(kvf_instance *instance, const kvf_region_params *params, kvf_region **region);
    void (*deregister_region)(kvf_instance *instance, kvf_region *region);
    int (*export_key)(kvf_instance *instance, kvf_region *region, void *blob, size_t *size);

    int (*peer_create)(kvf_instance *instance, const kvf_peer_params *params, kvf_peer **peer);
    /* Proves that the peer is reached, or says why not (KVF_ERR_UNREACHABLE, KVF_ERR_PERMISSION with what would allow
     * it). blob is the other side's peer_export, NULL and 0 where the transport has none. */
    int (*peer_connect)(kvf_peer *peer, const void *blob, size_t size);
    void (*peer_destroy)(kvf_peer *peer); /* its keys are released by then */
    int (*import_key)(kvf_peer *peer, const void *blob, size_t size, kvf_remote **remote);
    void (*release_key)(kvf_peer *peer, kvf_remote *remote);

    int (*lane_open)(kvf_instance *instance, uint32_t shard, kvf_lane **lane);
    /* Ends what is left on it, which gets no completion: when it returns, none of its operations touches memory any
     * more. Where that takes a peer's doing it may wait for as long as a second. */
    void (*lane_close)(kvf_lane *lane);

    /* Starts one operation of the first *accepted of count segments, which are one or more. KVF_OK with *accepted 0:
     * full, try again after a completion. A negative status: the first segment can't be posted, nothing was accepted.
     */
    int (*post)(kvf_lane *lane, kvf_peer *peer, uint32_t op, const kvf_segment *segments, uint32_t count,
                uint64_t token, uint32_t *accepted);
    /* Drives the lane; fills up to capacity completions and returns their number. Called while operations of the lane
     * are in flight: a side that only receives is not polled. */
    int (*poll)(kvf_lane *lane, kvf_completion *completions, uint32_t capacity);

    /* Optional: NULL, or behind the end of the table. */
    int (*peer_export)(kvf_peer *peer, void *blob, size_t *size);
    /* KVF_CAP_WAIT: blocks until poll may have something, or timeout_ms. This host does not call it: a shard sleeps on
     * the descriptors of all its lanes at once, and polls those without one now and then. */
    int (*wait)(kvf_lane *lane, uint32_t timeout_ms);
    /* KVF_CAP_EVENT_FD: readable when poll may have something. Belongs to the lane. arm is called before each sleep:
     * KVF_ERR_BUSY means poll again first; NULL for a transport that has nothing to arm. */
    int (*event_fd)(kvf_lane *lane);
    int (*arm)(kvf_lane *lane);
    /* KVF_CAP_CANCEL: asks for an early end of an operation, which still ends by its completion. KVF_ERR_INVALID: no
     * operation with that token is in flight. */
    int (*cancel)(kvf_lane *lane, uint64_t token);
    /* KVF_CAP_FENCE: when it returns KVF_OK, no operation of this peer touches our memory any more, none of ours
     * touches the peer's, and none ever will; ours in flight complete as KVF_ERR_CANCELLED. KVF_ERR_BUSY: not to be had
     * now (a live writer that maps our memory), ask again. Whatever it returns, posts to the peer fail
     * from then on. */
    int (*fence)(kvf_peer *peer);
    /* Fills up to capacity counters, returns how many there are. Any thread. */
    int (*counters)(kvf_instance *instance, kvf_counter *counters, size_t capacity);
} kvf_transport_ops;

/* ------------------------------------------------------------------------------------------------- the query */

/* Zeroed by the host but for struct_size, the bytes it knows; the plugin fills no more than that. All strings are
 * static. */
typedef struct kvf_plugin {
    uint32_t struct_size;
    uint32_t abi_major, abi_minor; /* KVF_PLUGIN_ABI_… that the plugin was built with */
    uint32_t kind;                 /* KVF_PLUGIN_… */
    const char *name;              /* as its file is named */
    const char *description;       /* a line; which library and version it really bound */
    uint64_t capabilities;         /* KVF_CAP_… ; of a decorator: what it can pass through */
    const kvf_transport_ops *ops;
} kvf_plugin;

/* The one exported symbol. KVF_OK, or why the plugin is of no use on this machine (host->fail). May be called more than
 * once. */
typedef int (*kvf_plugin_query_fn)(const kvf_host *host, kvf_plugin *plugin);
KVF_API int kvf_plugin_query(const kvf_host *host, kvf_plugin *plugin);

#ifdef __cplusplus
}
#endif

#endif
