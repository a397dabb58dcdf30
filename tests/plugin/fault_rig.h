/* Two engines of one process that talk through the fault plugin over the memory fixture: ours writes and reads, theirs
 * only has memory. What the tests of the fault plugin stand on. */
#ifndef FAULT_RIG_H
#define FAULT_RIG_H

#include <kvferry/plugin.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the three above it first. */
#include <cmocka.h>

enum { RIG_BYTES = 4096 };

typedef struct rig {
    const kvf_transport_ops *ops; /* the fault plugin's */
    kvf_instance *ours, *theirs;
    kvf_region *our_region, *their_region;
    kvf_peer *peer;     /* theirs, as ours sees it */
    kvf_remote *remote; /* their region, likewise */
    kvf_lane *lane;     /* of ours */
    unsigned char our_memory[RIG_BYTES], their_memory[RIG_BYTES];
} rig;

/* The fault plugin's table, with a host that the functions below belong to. */
const kvf_plugin *rig_fault(void);

/* A fixture's table: "memory", "shorter", … */
const kvf_plugin *rig_inner(const char *name);

/* Opens everything with options for fault and for the fixture named inner; a failure fails the test. */
void rig_open(rig *it, const char *options, const char *inner, const char *inner_options);
void rig_close(rig *it);

/* Opens and closes an instance alone, and returns what open returned. */
int rig_try_open(const char *options);

/* What was last said with host->fail. */
const char *rig_sentence(void);

/* The value of KVF_<name> from here on, NULL for unset; one variable at a time. */
void rig_set_variable(const char *name, const char *value);

/* count segments of length bytes, one after the other from offset on, at the same place on both sides. */
void rig_segments(const rig *it, kvf_segment *segments, uint32_t count, uint64_t offset, uint64_t length);

/* Posts one write of length bytes at offset, which must be accepted. */
void rig_write(rig *it, uint64_t offset, uint64_t length, uint64_t token);

/* Polls until count completions have come, at most as often as polls says; returns how many came. */
uint32_t rig_reap(rig *it, kvf_completion *completions, uint32_t count, uint32_t polls);

#endif
