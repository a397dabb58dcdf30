#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------------------------- failing */

enum { LINES = 32, LINE_BYTES = 240 };

static const char *my_name = "test";
static char lines[LINES][LINE_BYTES];
static unsigned lines_kept;

void call_me(const char *name) {
    my_name = name;
}

static void keep_line(void *user, int32_t level, const char *message) {
    (void)user;
    (void)level;
    snprintf(lines[lines_kept++ % LINES], LINE_BYTES, "%llu %s", (unsigned long long)now_ms(), message);
}

void keep_log(void) {
    MUST(kvf_log_set(keep_line, NULL, KVF_LOG_INFO));
}

void die(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout);
    for (unsigned i = lines_kept > LINES ? lines_kept - LINES : 0; i < lines_kept; i++)
        fprintf(stderr, "    %s (%d) log: %s\n", my_name, (int)getpid(), lines[i % LINES]);
    fprintf(stderr, "%s (%d) at %llu: %s\n", my_name, (int)getpid(), (unsigned long long)now_ms(), text);
    fflush(stderr);
    _exit(1);
}

void must(int status, const char *call) {
    if (status != KVF_OK)
        die("%s is %s: %s", call, kvf_status_name(status), kvf_last_error());
}

/* -------------------------------------------------------------------------------------------------- time and dice */

uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void pause_ms(uint32_t ms) {
    poll(NULL, 0, (int)ms);
}

uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t roll(dice *it) {
    return it->state = mix(it->state, 1);
}

uint32_t roll_below(dice *it, uint32_t bound) {
    return (uint32_t)(roll(it) % bound);
}

/* --------------------------------------------------------------------------------------------- what is looked at */

int count_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    REQUIRE(folder != NULL, "/proc/self/fd can not be read");
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder's own */
}

static int read_counters(kvf_engine *engine, kvf_counter counters[64]) {
    const int count = kvf_engine_counters(engine, counters, 64, sizeof *counters);
    REQUIRE(count > 0 && count <= 64, "there are %d counters", count);
    return count;
}

uint64_t counter_of(kvf_engine *engine, const char *name) {
    kvf_counter counters[64];
    const int count = read_counters(engine, counters);
    for (int i = 0; i < count; i++)
        if (strcmp(counters[i].name, name) == 0)
            return counters[i].value;
    die("there is no counter %s", name);
}

const char *open_gauge(kvf_engine *engine, uint64_t *value) {
    kvf_counter counters[64];
    const int count = read_counters(engine, counters);
    for (int i = 0; i < count; i++) {
        if (strncmp(counters[i].name, "open_", 5) != 0 || counters[i].value == 0)
            continue;
        *value = counters[i].value;
        return counters[i].name;
    }
    return NULL;
}

void show_counters(kvf_engine *engine) {
    kvf_counter counters[64];
    const int count = read_counters(engine, counters);
    for (int i = 0; i < count; i++)
        if (counters[i].value != 0)
            fprintf(stderr, "    %s (%d) %s %llu\n", my_name, (int)getpid(), counters[i].name,
                    (unsigned long long)counters[i].value);
}

void await_no_gauge(kvf_engine *engine) {
    const uint64_t until = now_ms() + LONG_MS;
    const char *gauge;
    uint64_t value = 0;
    while ((gauge = open_gauge(engine, &value)) != NULL) {
        REQUIRE(now_ms() < until, "%s stays at %llu", gauge, (unsigned long long)value);
        pause_ms(1);
    }
}

kvf_room_status room_status(kvf_engine *engine, kvf_room room) {
    kvf_room_status status;
    memset(&status, 0, sizeof status);
    status.struct_size = sizeof status;
    MUST(kvf_room_poll(engine, room, &status));
    return status;
}

kvf_report room_report(kvf_engine *engine, kvf_room room) {
    kvf_report report;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    MUST(kvf_room_report(engine, room, &report));
    return report;
}
