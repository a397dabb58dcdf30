#define _GNU_SOURCE
#include "side.h"

#include "pool.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOMS = 24, MOST_PAGES = 6, MOST_EVENTS = 64 };

/* A place for one room at a time, always of the same id: what comes late for one room would meet the next. */
typedef struct slot {
    enum { IDLE, OPEN, QUARANTINED } state;
    kvf_room room;
    cargo cargo;     /* the sender reads the generation from the receiver's prefix_tokens */
    uint64_t opened; /* in which ORDER_SERVE */
    uint32_t count, sent;
    uint32_t pages[MOST_PAGES];
    int missed; /* was under way when the peer was stopped */
} slot;

typedef struct life {
    const side_setup *setup;
    int socket;
    kvf_engine *engine;
    int descriptors; /* at the start */
    pool pool;
    dice dice;
    slot slots[ROOMS];
    uint32_t may_fail;
    int opens;        /* whether rooms are opened */
    uint64_t serving; /* which ORDER_SERVE this is */
    uint64_t generations;
    uint64_t served; /* rooms of this ORDER_SERVE that succeeded */
    int again;       /* something was full */
    int owes;        /* an order is not answered */
    order order;
    uint64_t ordered_ms;
    answer tallies;
} life;

/* ---------------------------------------------------------------------------------------------------------- rooms */

static int tries_again(life *it, int status) {
    if (status == KVF_ERR_AGAIN)
        it->again = 1;
    return status == KVF_ERR_AGAIN;
}

static uint32_t pages_of(cargo what) {
    return 1 + (uint32_t)(mix(what.room_id, what.generation) % MOST_PAGES);
}

static void open_receiver(life *it, slot *at) {
    kvf_receiver_options options;
    kvf_index_list list = {0, 0, at->pages};
    int status;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    at->cargo.generation = it->generations + 1;
    options.prefix_tokens = at->cargo.generation;
    status = kvf_room_open_receiver(it->engine, it->setup->prefill, at->cargo.room_id, &options, &at->room);
    if (tries_again(it, status))
        return;
    must(status, "kvf_room_open_receiver");
    it->generations++;
    at->count = pages_of(at->cargo);
    pool_take(&it->pool, at->pages, at->count);
    list.count = at->count;
    at->state = OPEN;
    status = kvf_room_accept(it->engine, at->room, &list, 1, sizeof list);
    if (status != KVF_ERR_STATE) /* the peer it knew is lost already */
        must(status, "kvf_room_accept");
}

static void open_sender(life *it, slot *at) {
    const int status = kvf_room_open_sender(it->engine, at->cargo.room_id, NULL, &at->room);
    if (tries_again(it, status))
        return;
    must(status, "kvf_room_open_sender");
    at->count = 0;
    at->state = OPEN;
}

static void open_room(life *it, slot *at) {
    at->sent = 0;
    at->missed = 0;
    at->opened = it->serving;
    if (it->setup->role == SIDE_DECODE)
        open_receiver(it, at);
    else
        open_sender(it, at);
}

/* The receiver is known, and with it what the pages have to hold. */
static void load(life *it, slot *at) {
    at->cargo.generation = room_report(it->engine, at->room).prefix_tokens;
    at->count = pages_of(at->cargo);
    pool_take(&it->pool, at->pages, at->count);
    pool_load(&it->pool, at->pages, at->count, at->cargo);
}

/* The peer is stopped, and stays so until the order is answered. */
static int is_missing(const life *it) {
    return it->owes && it->order.kind == ORDER_MISS;
}

/* As if the pages of some rooms had to be computed first: they are under way when something happens, and still are, and
 * go on, when a peer that is stopped is given up. */
static int is_computing(life *it, const slot *at) {
    return at->cargo.generation % 3 == 0 && roll_below(&it->dice, is_missing(it) ? 256 : 8) != 0;
}

/* One chunk more. */
static void send_some(life *it, slot *at) {
    kvf_index_list list = {0, 0, at->pages + at->sent};
    kvf_chunk chunk;
    int status;
    memset(&chunk, 0, sizeof chunk);
    chunk.struct_size = sizeof chunk;
    chunk.lists = &list;
    chunk.list_count = 1;
    chunk.list_stride = sizeof list;
    list.count = 1 + roll_below(&it->dice, at->count - at->sent);
    chunk.flags = at->sent + list.count == at->count ? KVF_CHUNK_LAST : 0;
    status = kvf_room_send(it->engine, at->room, &chunk);
    if (tries_again(it, status) || status == KVF_ERR_STATE) /* it has ended meanwhile */
        return;
    must(status, "kvf_room_send");
    at->sent += list.count;
}

static void check_failure(life *it, const slot *at, int code) {
    const uint32_t may = it->may_fail;
    const int leaving = code == KVF_ERR_ABORTED || code == KVF_ERR_PEER_ABORTED || code == KVF_ERR_PEER_CLOSED;
    it->tallies.lost += code == KVF_ERR_PEER_LOST;
    it->tallies.silent += code == KVF_ERR_PEER_SILENT;
    it->tallies.failed_early += at->opened == it->serving;
    if (at->missed ? code == KVF_ERR_PEER_SILENT
                   : (code == KVF_ERR_PEER_LOST && (may & MAY_LOSE) != 0) ||
                         (code == KVF_ERR_PEER_SILENT && (may & MAY_MISS) != 0) || (leaving && (may & MAY_LEAVE) != 0))
        return;
    die("room %llu failed with %s%s: %s", (unsigned long long)at->cargo.room_id, kvf_status_name(code),
        at->missed ? " when its peer fell silent" : "", room_report(it->engine, at->room).message);
}

static void free_room(life *it, slot *at) {
    MUST(kvf_room_close(it->engine, at->room));
    pool_give(&it->pool, at->pages, at->count);
    at->state = IDLE;
}

static void end_room(life *it, slot *at, kvf_room_status status) {
    const int quiesced = (status.flags & KVF_ROOM_QUIESCED) != 0;
    if (at->state == OPEN && status.state == KVF_STATE_SUCCESS) {
        REQUIRE(quiesced, "room %llu is Success and not quiesced", (unsigned long long)at->cargo.room_id);
        pool_expect(&it->pool, at->pages, at->count, at->cargo);
        it->tallies.succeeded++;
        it->served += at->opened == it->serving;
    } else if (at->state == OPEN) {
        check_failure(it, at, status.code);
        at->state = QUARANTINED;
    }
    REQUIRE(!quiesced || status.state == KVF_STATE_SUCCESS || !at->missed || !is_missing(it) ||
                it->setup->role == SIDE_PREFILL,
            "room %llu is quiesced while its writer is stopped", (unsigned long long)at->cargo.room_id);
    if (quiesced) {
        free_room(it, at);
        return;
    }
    REQUIRE(it->setup->role == SIDE_DECODE, "sender %llu waits for a transport that is done at once",
            (unsigned long long)at->cargo.room_id);
    REQUIRE(kvf_room_close(it->engine, at->room) == KVF_ERR_BUSY, "room %llu is not quiesced, and was closed",
            (unsigned long long)at->cargo.room_id);
}

static void look(life *it, slot *at) {
    if (at->state == IDLE)
        return;
    const kvf_room_status status = room_status(it->engine, at->room);
    if (status.state == KVF_STATE_FAILED || status.state == KVF_STATE_SUCCESS)
        end_room(it, at, status);
    else if (it->setup->role == SIDE_PREFILL && status.state == KVF_STATE_WAITING && at->count == 0)
        load(it, at);
}

static void take_events(life *it) {
    kvf_event events[MOST_EVENTS];
    const int count = kvf_engine_events(it->engine, events, MOST_EVENTS, sizeof *events, 0);
    REQUIRE(count >= 0, "kvf_engine_events is %s", kvf_status_name(count));
    for (int i = 0; i < count; i++)
        look(it, &it->slots[events[i].room_id - 1]);
}

static int has_more_to_send(const life *it, const slot *at) {
    return it->setup->role == SIDE_PREFILL && at->state == OPEN && at->sent < at->count;
}

static void work(life *it) {
    it->again = 0;
    take_events(it);
    for (slot *at = it->slots; at < it->slots + ROOMS; at++) {
        if (at->state == IDLE && it->opens)
            open_room(it, at);
        if (has_more_to_send(it, at) && !is_computing(it, at))
            send_some(it, at);
    }
}

/* --------------------------------------------------------------------------------------------------------- orders */

static void count_slots(life *it) {
    it->tallies.quarantined = it->tallies.carried = 0;
    for (const slot *at = it->slots; at < it->slots + ROOMS; at++) {
        it->tallies.quarantined += at->state == QUARANTINED;
        it->tallies.carried += at->state == OPEN;
    }
}

static int has_served(const life *it) {
    if (it->order.rooms == 0)
        return 1;
    for (const slot *at = it->slots; at < it->slots + ROOMS; at++)
        if (at->state != IDLE && at->opened != it->serving)
            return 0;
    return it->served >= it->order.rooms;
}

/* Rooms that have no peer yet go on. The gauges first: once no link is there, all rooms have been told. */
static int has_mourned(life *it) {
    static const char *const gauges[] = {"open_links", "open_settles", "open_operations", "open_unclaimed"};
    for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
        if (counter_of(it->engine, gauges[i]) != 0)
            return 0;
    uint32_t open = 0;
    for (const slot *at = it->slots; at < it->slots + ROOMS; at++) {
        if (at->state == IDLE)
            continue;
        if (at->state == QUARANTINED || room_status(it->engine, at->room).state != KVF_STATE_BOOTSTRAPPING)
            return 0;
        open++;
    }
    return counter_of(it->engine, "open_handles") == open && counter_of(it->engine, "open_rooms") == open;
}

/* Whether the peer has the room's pages, and may be writing to them. */
static int is_offered(life *it, const slot *at) {
    const kvf_report report = room_report(it->engine, at->room);
    return report.queued_ns != 0 && report.waiting_ns != 0 && report.ended_ns == 0;
}

static void begin_to_miss(life *it) {
    for (slot *at = it->slots; at < it->slots + ROOMS; at++) {
        look(it, at);
        if (at->state != OPEN)
            continue;
        const uint32_t state = room_status(it->engine, at->room).state;
        at->missed = it->setup->role == SIDE_DECODE ? is_offered(it, at)
                                                    : state == KVF_STATE_WAITING || state == KVF_STATE_TRANSFERRING;
    }
}

static int has_missed(life *it) {
    for (slot *at = it->slots; at < it->slots + ROOMS; at++) {
        look(it, at);
        if (at->state == OPEN && room_status(it->engine, at->room).state != KVF_STATE_BOOTSTRAPPING)
            return 0;
    }
    return 1;
}

static void leave(life *it) {
    for (slot *at = it->slots; at < it->slots + ROOMS; at++)
        if (at->state == OPEN)
            MUST(kvf_room_abort(it->engine, at->room, "the side leaves"));
}

static int is_empty(const life *it) {
    for (const slot *at = it->slots; at < it->slots + ROOMS; at++)
        if (at->state != IDLE)
            return 0;
    return 1;
}

static void obey(life *it, const order *given) {
    it->order = *given;
    it->owes = 1;
    it->ordered_ms = now_ms();
    it->opens = given->kind == ORDER_SERVE;
    if (given->kind == ORDER_SERVE) {
        it->serving++;
        it->served = 0;
        it->tallies.failed_early = 0;
    } else if (given->kind == ORDER_MISS) {
        begin_to_miss(it);
    } else if (given->kind >= ORDER_RETIRE) {
        it->may_fail |= MAY_LEAVE;
        if (given->kind > ORDER_RETIRE)
            leave(it);
    }
}

static int has_obeyed(life *it) {
    switch (it->order.kind) {
        case ORDER_SERVE:
            return has_served(it);
        case ORDER_MOURN:
            return has_mourned(it);
        case ORDER_MISS:
            return has_missed(it);
        case ORDER_RETIRE:
            return 1;
        default:
            return is_empty(it);
    }
}

static void say(life *it) {
    count_slots(it);
    REQUIRE(send(it->socket, &it->tallies, sizeof it->tallies, MSG_NOSIGNAL) == sizeof it->tallies,
            "the supervisor is gone");
    it->owes = 0;
}

__attribute__((noreturn)) static void end(life *it) {
    if (it->order.kind == ORDER_LEAVE_LAST) {
        await_no_gauge(it->engine);
        const int descriptors = count_descriptors();
        REQUIRE(descriptors == it->descriptors, "%d descriptors are open, %d were before the first room", descriptors,
                it->descriptors);
    }
    pool_check(&it->pool);
    MUST(kvf_engine_destroy(it->engine, LONG_MS));
    say(it);
    exit(0);
}

static void show_slots(life *it) {
    for (const slot *at = it->slots; at < it->slots + ROOMS; at++)
        if (at->state != IDLE) {
            const kvf_report report = room_report(it->engine, at->room);
            fprintf(stderr,
                    "    room %llu: state %u flags %u code %s, ours %d opened in %llu (now %llu), pages %u/%u: %s\n",
                    (unsigned long long)at->cargo.room_id, report.state, report.flags, kvf_status_name(report.code),
                    (int)at->state, (unsigned long long)at->opened, (unsigned long long)it->serving, at->sent,
                    at->count, report.message);
        }
}

static void sleep_until_there_is_something(life *it) {
    struct pollfd sources[2] = {{it->socket, POLLIN, 0}, {kvf_engine_event_fd(it->engine), POLLIN, 0}};
    int is_busy = it->again || it->owes;
    for (const slot *at = it->slots; at < it->slots + ROOMS; at++)
        is_busy |= has_more_to_send(it, at);
    poll(sources, 2, is_busy ? 1 : 1000);
    if (sources[0].revents == 0)
        return;
    order given;
    if (recv(it->socket, &given, sizeof given, 0) != sizeof given)
        _exit(0); /* the supervisor has failed, and said why */
    obey(it, &given);
}

/* ------------------------------------------------------------------------------------------------------ beginning */

static void exit_at_once(int signal) {
    (void)signal;
    _exit(0);
}

static void begin(life *it, int socket, const side_setup *setup) {
    kvf_engine_config config;
    struct sigaction action;
    memset(it, 0, sizeof *it);
    it->setup = setup;
    it->socket = socket;
    it->may_fail = setup->may_fail;
    it->dice.state = setup->seed;
    memset(&action, 0, sizeof action);
    action.sa_handler = exit_at_once;
    sigaction(SIGUSR1, &action, NULL);
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.role = setup->role == SIDE_DECODE ? KVF_ROLE_DECODE : KVF_ROLE_PREFILL;
    config.name = setup->role == SIDE_DECODE ? "decode" : "prefill";
    config.listen = setup->listen;
    config.shards = 2;
    config.max_rooms = 2 * ROOMS;
    config.heartbeat_ms = setup->heartbeat_ms;
    keep_log();
    MUST(kvf_engine_create(&config, &it->engine));
    MUST(kvf_engine_load_transport(it->engine, "shm", setup->options));
    pool_open(&it->pool, it->engine, setup->seed);
    it->descriptors = count_descriptors();
    for (uint32_t i = 0; i < ROOMS; i++)
        it->slots[i].cargo.room_id = i + 1;
    /* Generations of different processes differ, so that nothing of an earlier one is taken for this one's. */
    it->generations = mix(setup->seed, 9000) >> 32 << 20;
    snprintf(it->tallies.address, sizeof it->tallies.address, "%s", kvf_engine_address(it->engine));
    say(it);
}

void side_live(int socket, const side_setup *setup) {
    static life it;
    call_me(setup->role == SIDE_DECODE ? "decode" : "prefill");
    begin(&it, socket, setup);
    for (;;) {
        sleep_until_there_is_something(&it);
        work(&it);
        if (!it.owes)
            continue;
        if (has_obeyed(&it)) {
            if (it.order.kind >= ORDER_LEAVE)
                end(&it);
            if (it.order.kind == ORDER_MOURN)
                pool_check(&it.pool);
            say(&it);
        } else if (now_ms() - it.ordered_ms > LONG_MS) {
            show_slots(&it);
            show_counters(it.engine);
            die("order %u was not done in time", it.order.kind);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ the supervisor's */

void side_start(side *it, const side_setup *setup) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no socket pair");
    it->name = setup->role == SIDE_DECODE ? "decode" : "prefill";
    fflush(NULL);
    it->pid = fork();
    REQUIRE(it->pid >= 0, "no process");
    if (it->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also a stopped one must not outlive the test */
        close(ends[0]);
        side_live(ends[1], setup);
    }
    close(ends[1]);
    it->socket = ends[0];
}

void side_order(const side *it, order_kind kind, uint32_t rooms) {
    const order given = {kind, rooms};
    REQUIRE(send(it->socket, &given, sizeof given, MSG_NOSIGNAL) == sizeof given, "%s takes no orders", it->name);
}
