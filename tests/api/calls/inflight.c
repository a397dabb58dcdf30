/* Transfers whose operations never complete. */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t kFrom[] = {1, 2, 3, 4}, kTo[] = {10, 12, 14, 16};
enum { COUNT = sizeof kFrom / sizeof *kFrom };

/* An engine over the fixture's transport, which can't cancel; its memory is aligned for no other. */
static kvf_engine *open_slow(uint32_t role, unsigned char **memory) {
    const kvf_engine_config config = config_of(role);
    kvf_engine *engine = NULL;
    kvf_tensor tensors[TENSORS];
    void *allocated = NULL;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_OK(kvf_engine_load_transport(engine, "modest", "slow=1000000000000"));
    EXPECT_OK(kvf_memory_alloc(engine, MEMORY_BYTES, &allocated));
    *memory = allocated;
    tensors_of(*memory, tensors);
    EXPECT_OK(kvf_engine_register(engine, tensors, TENSORS, sizeof *tensors));
    return engine;
}

/* The fixture ends the process when a peer is destroyed that has operations in flight. */
static void an_engine_that_is_destroyed_ends_what_is_in_flight_before_the_peers(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    memset(&it, 0, sizeof it);
    setenv("KVF_PLUGIN_PATH", KVF_TEST_FIXTURES "/good", 1);
    it.prefill = open_slow(KVF_ROLE_PREFILL, &it.from);
    it.decode = open_slow(KVF_ROLE_DECODE, &it.to);
    unsetenv("KVF_PLUGIN_PATH");
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, kTo, COUNT));
    EXPECT_OK(send_pages(it.prefill, sender, kFrom, COUNT, KVF_CHUNK_LAST));
    await(it.prefill, sender, KVF_STATE_TRANSFERRING);
    EXPECT_ERROR(kvf_engine_destroy(it.prefill, 0), KVF_ERR_BUSY, "1 rooms were not quiesced within 0 ms");
    expect_untouched(&it);
    (void)kvf_engine_destroy(it.decode, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_that_is_destroyed_ends_what_is_in_flight_before_the_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
