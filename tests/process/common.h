/* What the tests with real processes have in common: how they fail, their dice, and what they look at in an engine and
 * in their own process. */
#ifndef PROCESS_COMMON_H
#define PROCESS_COMMON_H

#include <kvferry/kvferry.h>
#include <stddef.h>
#include <stdint.h>

enum { LONG_MS = 120000 /* longer than anything takes; what has not come by then never will */ };

/* Ends the process with what went wrong, after the last lines of the library's log. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);
/* What die says first. The text must outlive the process's work. */
void call_me(const char *name);
/* The library's log lines are kept for die instead of printed. */
void keep_log(void);

#define REQUIRE(condition, ...) \
    do {                        \
        if (!(condition))       \
            die(__VA_ARGS__);   \
    } while (0)
/* The call returns KVF_OK. */
#define MUST(call) must((call), #call)
void must(int status, const char *call);

uint64_t now_ms(void);
/* A moment in which others may do something; it stands in loops that look for that. */
void pause_ms(uint32_t ms);

/* Numbers from a seed. */
typedef struct dice {
    uint64_t state;
} dice;
uint64_t roll(dice *it);
uint32_t roll_below(dice *it, uint32_t bound);
uint64_t mix(uint64_t a, uint64_t b);

int count_descriptors(void);
uint64_t counter_of(kvf_engine *engine, const char *name);
/* A gauge that is above zero, or NULL. */
const char *open_gauge(kvf_engine *engine, uint64_t *value);
/* All counters that are not zero, to standard error. */
void show_counters(kvf_engine *engine);
/* Waits until there is no gauge above zero. */
void await_no_gauge(kvf_engine *engine);

kvf_room_status room_status(kvf_engine *engine, kvf_room room);
kvf_report room_report(kvf_engine *engine, kvf_room room);

#endif
