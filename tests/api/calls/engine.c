/* Engines: how they are made, what they load, what they say of themselves; and the functions that need none. */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- configuration */

static void configurations_that_can_not_be_are_refused(void **state) {
    (void)state;
    kvf_engine *engine = NULL;
    kvf_engine_config config = config_of(0);
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID, "role is 0");
    config = config_of(4);
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID, "role is 4");
    config = config_of(KVF_ROLE_PREFILL);
    config.max_rooms = (1u << 24) + 1;
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID, "max_rooms is 16777217; expected 1 to 16777216");
    config = config_of(KVF_ROLE_PREFILL);
    config.shards = 257;
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID, "shards is 257; expected 1 to 256");
    config = config_of(KVF_ROLE_PREFILL);
    config.window_ops = 65537;
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID, "window_ops is 65537; expected 1 to 65536");
    config = config_of(KVF_ROLE_PREFILL);
    config.tp_rank = 2;
    config.tp_size = 2;
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID,
                 "tp_rank is 2; expected below tp_size, which is 2");
    config = config_of(KVF_ROLE_PREFILL);
    config.dp_rank = 1;
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID,
                 "dp_rank is 1; expected below dp_size, which is 1");
    config = config_of(KVF_ROLE_PREFILL);
    config.listen = "nowhere";
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID, "nowhere");
    config.listen = "tcp://127.0.0.1:65536";
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID, "65536");
    config.listen = "tcp://0.0.0.0:0";
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID,
                 "listen address 'tcp://0.0.0.0:0' is open to other hosts");
    setenv("KVF_TRUST_NETWORK", "1", 1);
    EXPECT_OK(kvf_engine_create(&config, &engine));
    unsetenv("KVF_TRUST_NETWORK");
    EXPECT_OK(kvf_engine_destroy(engine, 0));
    engine = NULL;
    config = config_of(KVF_ROLE_PREFILL);
    config.bootstrap = "no port";
    EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_INVALID, "no port");
    assert_null(engine);
}

static void a_variable_that_does_not_parse_is_refused_and_named(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"KVF_SHARDS", "many"}, {"KVF_WINDOW_BYTES", "1Q"}, {"KVF_WAITING_MS", "-1"}, {"KVF_LOG", "loud"}};
    const kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kvf_engine *engine = NULL;
        char text[64];
        snprintf(text, sizeof text, "%s is \"%s\"; expected ", wrong[i][0], wrong[i][1]);
        setenv(wrong[i][0], wrong[i][1], 1);
        EXPECT_ERROR(kvf_engine_create(&config, &engine), KVF_ERR_OPTION, text);
        unsetenv(wrong[i][0]);
        assert_null(engine);
    }
}

static void only_prefill_listens(void **state) {
    (void)state;
    kvf_engine *engine = NULL;
    kvf_engine_config config = config_of(KVF_ROLE_DECODE);
    EXPECT_OK(kvf_engine_create(&config, &engine));
    assert_string_equal(kvf_engine_address(engine), "");
    EXPECT_OK(kvf_engine_destroy(engine, 0));
    config = config_of(KVF_ROLE_BOTH);
    EXPECT_OK(kvf_engine_create(&config, &engine));
    assert_memory_equal(kvf_engine_address(engine), "tcp://127.0.0.1:", 16);
    EXPECT_OK(kvf_engine_destroy(engine, 0));
}

static void an_engine_is_not_its_own_peer(void **state) {
    (void)state;
    const kvf_engine_config config = config_of(KVF_ROLE_BOTH);
    unsigned char *memory;
    kvf_engine *engine = engine_open(&config, &memory);
    kvf_room room;
    EXPECT_ERROR(kvf_room_open_receiver(engine, kvf_engine_address(engine), 7, NULL, &room), KVF_ERR_INVALID,
                 "is this engine itself");
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
}

static void a_port_in_use_is_an_error_and_free_after_the_end(void **state) {
    (void)state;
    kvf_engine *first = NULL, *second = NULL;
    char address[64];
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    EXPECT_OK(kvf_engine_create(&config, &first));
    snprintf(address, sizeof address, "%s", kvf_engine_address(first));
    config.listen = address;
    EXPECT_ERROR(kvf_engine_create(&config, &second), KVF_ERR_ADDRESS_IN_USE, strrchr(address, '/') + 1);
    assert_null(second);
    EXPECT_OK(kvf_engine_destroy(first, 0));
    EXPECT_OK(kvf_engine_create(&config, &second));
    assert_string_equal(kvf_engine_address(second), address);
    EXPECT_OK(kvf_engine_destroy(second, 0));
}

static void the_environment_stands_in_for_what_is_zero(void **state) {
    (void)state;
    kvf_engine *engine = NULL;
    kvf_room first, second;
    kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    config.max_rooms = 0;
    setenv("KVF_MAX_ROOMS", "1", 1);
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_OK(kvf_room_open_sender(engine, 1, NULL, &first));
    EXPECT_ERROR(kvf_room_open_sender(engine, 2, NULL, &second), KVF_ERR_FULL, "all 1 room slots are in use");
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
    config.max_rooms = 2;
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_OK(kvf_room_open_sender(engine, 1, NULL, &first));
    EXPECT_OK(kvf_room_open_sender(engine, 2, NULL, &second));
    EXPECT_OK(kvf_engine_destroy(engine, LONG_MS));
    unsetenv("KVF_MAX_ROOMS");
}

/* ----------------------------------------------------------------------------------------------------------- log */

typedef struct lines {
    pthread_mutex_t mutex;
    char text[8192];
} lines;

static void keep_line(void *user, int32_t level, const char *message) {
    lines *it = user;
    pthread_mutex_lock(&it->mutex);
    const size_t length = strlen(it->text);
    snprintf(it->text + length, sizeof it->text - length, "%d %s\n", (int)level, message);
    pthread_mutex_unlock(&it->mutex);
}

static void a_variable_that_nobody_reads_is_warned_of(void **state) {
    (void)state;
    static lines kept = {PTHREAD_MUTEX_INITIALIZER, ""};
    kvf_engine *engine = NULL;
    const kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    EXPECT_OK(kvf_log_set(keep_line, &kept, KVF_LOG_WARN));
    setenv("KVF_WINDOW_BITES", "1", 1);
    setenv("KVF_SHM_MAP", "1", 1);
    EXPECT_OK(kvf_engine_create(&config, &engine));
    unsetenv("KVF_WINDOW_BITES");
    unsetenv("KVF_SHM_MAP");
    EXPECT_OK(kvf_engine_destroy(engine, 0));
    EXPECT_OK(kvf_log_set(NULL, NULL, 0));
    assert_non_null(strstr(kept.text, "KVF_WINDOW_BITES"));
    assert_memory_equal(kept.text, "2 ", 2);
    assert_null(strstr(kept.text, "KVF_SHM_MAP"));
}

static void a_log_level_that_is_none_is_refused(void **state) {
    (void)state;
    EXPECT_ERROR(kvf_log_set(NULL, NULL, 5), KVF_ERR_INVALID, "level is 5");
    EXPECT_ERROR(kvf_log_set(NULL, NULL, -1), KVF_ERR_INVALID, "level is -1");
}

/* ---------------------------------------------------------------------------------------------------- transports */

static void transports_that_can_not_be_loaded_say_why(void **state) {
    (void)state;
    kvf_engine *engine = NULL;
    const kvf_engine_config config = config_of(KVF_ROLE_PREFILL);
    setenv("KVF_PLUGIN_PATH", KVF_TEST_FIXTURES "/bad", 1);
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_ERROR(kvf_engine_load_transport(engine, "absent", NULL), KVF_ERR_NO_TRANSPORT,
                 KVF_TEST_FIXTURES "/bad/absent.so: ");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "future", NULL), KVF_ERR_PLUGIN_ABI, "99");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "strange", NULL), KVF_ERR_UNSUPPORTED, "(kind 77)");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "shm+shm", NULL), KVF_ERR_UNSUPPORTED, "shm is not a decorator");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "fault+fault", NULL), KVF_ERR_UNSUPPORTED, "is not a transport");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "No/Name", NULL), KVF_ERR_INVALID, "\"No/Name\"");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "shm", "bogus=1"), KVF_ERR_OPTION, "bogus");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "shm", "map"), KVF_ERR_OPTION, "map");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "fault", NULL), KVF_ERR_UNSUPPORTED, "fault is a decorator");
    EXPECT_ERROR(kvf_engine_load_transport(engine, "fault+shm", "fail=2"), KVF_ERR_OPTION, "fail");
    EXPECT_ERROR(kvf_engine_unload_transport(engine, "shm", 0), KVF_ERR_NO_TRANSPORT,
                 "the transport shm is not loaded");
    EXPECT_OK(kvf_engine_load_transport(engine, "shm", NULL));
    EXPECT_ERROR(kvf_engine_load_transport(engine, "shm", NULL), KVF_ERR_EXISTS, "the transport shm is loaded already");
    EXPECT_OK(kvf_engine_unload_transport(engine, "shm", LONG_MS));
    EXPECT_OK(kvf_engine_load_transport(engine, "shm", ""));
    EXPECT_OK(kvf_engine_destroy(engine, 0));
    unsetenv("KVF_PLUGIN_PATH");
}

static void a_transport_in_use_is_not_unloaded(void **state) {
    (void)state;
    pair it;
    kvf_room sender, receiver;
    const uint32_t page = 1;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, &page, 1));
    await(it.prefill, sender, KVF_STATE_WAITING);
    EXPECT_ERROR(kvf_engine_unload_transport(it.prefill, "shm", 1), KVF_ERR_BUSY, "still use the transport shm");
    EXPECT_OK(send_pages(it.prefill, sender, &page, 1, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    expect_arrived(&it, &page, &page, 1);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    EXPECT_OK(kvf_engine_unload_transport(it.prefill, "shm", LONG_MS));
    EXPECT_ERROR(kvf_engine_unload_transport(it.prefill, "shm", 0), KVF_ERR_NO_TRANSPORT, "shm");
    pair_close(&it);
}

static void *unload_while_it_is_used(void *engine) {
    EXPECT_OK(kvf_engine_unload_transport(engine, "shm", LONG_MS));
    return NULL;
}

static void memory_and_tensors_come_and_go_while_an_unload_waits(void **state) {
    (void)state;
    pair it;
    pthread_t unload;
    kvf_room sender, receiver;
    const uint32_t page = 1;
    pair_open(&it, NULL, NULL);
    open_rooms(&it, 7, &sender, &receiver);
    EXPECT_OK(accept_pages(it.decode, receiver, &page, 1));
    await(it.prefill, sender, KVF_STATE_WAITING);
    assert_int_equal(pthread_create(&unload, NULL, unload_while_it_is_used, it.prefill), 0);
    /* The room ends behind these, so that they can't wait for the unload. */
    for (int looks = 0; looks < 100; look_again(&looks)) {
        void *memory = NULL;
        kvf_tensor tensor;
        EXPECT_OK(kvf_memory_alloc(it.prefill, PAGE_BYTES, &memory));
        EXPECT_OK(kvf_memory_free(it.prefill, memory));
        memset(&tensor, 0, sizeof tensor);
        EXPECT_ERROR(kvf_engine_register(it.prefill, &tensor, 1, sizeof tensor), KVF_ERR_EMPTY, "");
    }
    EXPECT_OK(send_pages(it.prefill, sender, &page, 1, KVF_CHUNK_LAST));
    EXPECT_END(it.decode, receiver, KVF_OK);
    close_room(it.decode, receiver);
    close_room(it.prefill, sender);
    pthread_join(unload, NULL);
    EXPECT_ERROR(kvf_engine_unload_transport(it.prefill, "shm", 0), KVF_ERR_NO_TRANSPORT, "shm");
    pair_close(&it);
}

static void a_transport_loaded_again_serves_again(void **state) {
    (void)state;
    pair it;
    const uint32_t page = 1;
    pair_open(&it, NULL, NULL);
    for (uint64_t id = 1; id <= 2; id++) {
        kvf_room sender, receiver;
        open_rooms(&it, id, &sender, &receiver);
        EXPECT_OK(accept_pages(it.decode, receiver, &page, 1));
        EXPECT_OK(send_pages(it.prefill, sender, &page, 1, KVF_CHUNK_LAST));
        EXPECT_END(it.decode, receiver, KVF_OK);
        close_room(it.decode, receiver);
        close_room(it.prefill, sender);
        EXPECT_OK(kvf_engine_unload_transport(it.prefill, "shm", LONG_MS));
        EXPECT_OK(kvf_engine_load_transport(it.prefill, "shm", NULL));
    }
    pair_close(&it);
}

/* ------------------------------------------------------------------------------------------------------- listings */

static void plugins_are_listed_with_what_they_are_or_why_not(void **state) {
    (void)state;
    static kvf_plugin_info plugins[64];
    int shm = 0, fault = 0, future = 0;
    setenv("KVF_PLUGIN_PATH", KVF_TEST_FIXTURES "/bad", 1);
    const int count = kvf_plugin_list(plugins, 64, sizeof *plugins);
    unsetenv("KVF_PLUGIN_PATH");
    assert_in_range(count, 3, 64);
    for (int i = 0; i < count; i++) {
        if (strcmp(plugins[i].name, "shm") == 0) {
            shm++;
            assert_int_equal(plugins[i].kind, KVF_PLUGIN_TRANSPORT);
            assert_string_equal(plugins[i].refused, "");
            assert_int_equal(plugins[i].abi_major, 1);
        } else if (strcmp(plugins[i].name, "fault") == 0) {
            fault++;
            assert_int_equal(plugins[i].kind, KVF_PLUGIN_DECORATOR);
        } else if (strcmp(plugins[i].name, "future") == 0) {
            future++;
            assert_non_null(strstr(plugins[i].refused, "99"));
        }
    }
    assert_int_equal(shm, 1);
    assert_int_equal(fault, 1);
    assert_int_equal(future, 1);
}

static void the_configuration_is_listed_with_its_sources(void **state) {
    (void)state;
    static kvf_config_entry entries[64];
    setenv("KVF_SHARDS", "3", 1);
    setenv("KVF_INBOX", "lots", 1);
    const int count = kvf_config_list(entries, 64, sizeof *entries);
    unsetenv("KVF_SHARDS");
    unsetenv("KVF_INBOX");
    assert_in_range(count, 12, 64);
    assert_int_equal(kvf_config_list(NULL, 0, 0), count);
    int seen = 0;
    for (int i = 0; i < count; i++) {
        assert_memory_equal(entries[i].name, "KVF_", 4);
        assert_non_null(entries[i].description);
        if (strcmp(entries[i].name, "KVF_SHARDS") == 0) {
            assert_string_equal(entries[i].value, "3");
            assert_string_equal(entries[i].source, "environment");
            seen++;
        } else if (strcmp(entries[i].name, "KVF_INBOX") == 0) {
            assert_string_equal(entries[i].source, "environment (does not parse)");
            seen++;
        } else if (strcmp(entries[i].name, "KVF_WINDOW_OPS") == 0) {
            assert_string_equal(entries[i].value, entries[i].default_value);
            assert_string_equal(entries[i].source, "default");
            seen++;
        }
    }
    assert_int_equal(seen, 3);
}

/* ----------------------------------------------------------------------------------------------------------- text */

/* And is gone from the listing with the variable. */
static void a_variable_that_nobody_reads_is_listed_as_such(void **state) {
    (void)state;
    static kvf_config_entry entries[64];
    const int before = kvf_config_list(NULL, 0, 0);
    setenv("KVF_WINDOW_BITES", "1M", 1);
    setenv("KVF_SHM_MAP", "1", 1);
    const int count = kvf_config_list(entries, 64, sizeof *entries);
    unsetenv("KVF_WINDOW_BITES");
    unsetenv("KVF_SHM_MAP");
    assert_int_equal(count, before + 1);
    assert_string_equal(entries[count - 1].name, "KVF_WINDOW_BITES");
    assert_string_equal(entries[count - 1].value, "1M");
    assert_string_equal(entries[count - 1].source, "environment (nothing reads it)");
    assert_string_equal(entries[count - 1].default_value, "");
    assert_string_equal(entries[count - 1].description, "");
    assert_int_equal(kvf_config_list(NULL, 0, 0), before);
}

static void every_status_has_a_name_and_a_text(void **state) {
    (void)state;
#define CHECK(name, value, text)                                    \
    assert_string_equal(kvf_status_name(KVF_##name), "KVF_" #name); \
    assert_string_equal(kvf_strerror(KVF_##name), text);
    KVF_STATUS_MAP(CHECK)
#undef CHECK
    assert_string_equal(kvf_status_name(12345), "KVF_ERR_?");
    assert_non_null(kvf_strerror(12345));
}

static void the_version_is_the_headers(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", KVF_VERSION_MAJOR, KVF_VERSION_MINOR, KVF_VERSION_PATCH);
    assert_int_equal(kvf_version(), KVF_VERSION);
    assert_string_equal(kvf_version_string(), text);
}

static void *fail_once(void *unused) {
    (void)unused;
    assert_string_equal(kvf_last_error(), "");
    EXPECT_ERROR(kvf_log_set(NULL, NULL, 9), KVF_ERR_INVALID, "level is 9");
    return NULL;
}

static void a_sentence_is_the_threads_own(void **state) {
    (void)state;
    pthread_t thread;
    EXPECT_ERROR(kvf_log_set(NULL, NULL, 7), KVF_ERR_INVALID, "level is 7");
    assert_int_equal(pthread_create(&thread, NULL, fail_once, NULL), 0);
    pthread_join(thread, NULL);
    assert_non_null(strstr(kvf_last_error(), "level is 7"));
}

static void calls_that_succeed_leave_the_sentence_of_the_last_that_failed(void **state) {
    (void)state;
    kvf_engine *engine = NULL;
    kvf_counter counter;
    kvf_event event;
    const kvf_engine_config config = config_of(KVF_ROLE_DECODE);
    EXPECT_OK(kvf_engine_create(&config, &engine));
    EXPECT_ERROR(kvf_log_set(NULL, NULL, 7), KVF_ERR_INVALID, "level is 7");
    EXPECT_OK(kvf_log_set(NULL, NULL, 0));
    EXPECT_OK(kvf_memory_free(engine, NULL));
    assert_true(kvf_engine_counters(engine, &counter, 1, sizeof counter) > 0);
    assert_int_equal(kvf_engine_events(engine, &event, 1, sizeof event, 0), 0);
    assert_string_equal(kvf_engine_address(engine), "");
    assert_non_null(strstr(kvf_last_error(), "level is 7"));
    EXPECT_OK(kvf_engine_destroy(engine, 0));
    assert_non_null(strstr(kvf_last_error(), "level is 7"));
}

static void an_address_that_can_not_be_given_is_empty_and_says_why(void **state) {
    (void)state;
    assert_string_equal(kvf_engine_address(NULL), "");
    assert_non_null(strstr(kvf_last_error(), "engine is NULL"));
    assert_string_equal(kvf_bootstrap_address(NULL), "");
    assert_non_null(strstr(kvf_last_error(), "bootstrap is NULL"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_that_can_not_be_are_refused),
        cmocka_unit_test(a_variable_that_does_not_parse_is_refused_and_named),
        cmocka_unit_test(only_prefill_listens),
        cmocka_unit_test(an_engine_is_not_its_own_peer),
        cmocka_unit_test(a_port_in_use_is_an_error_and_free_after_the_end),
        cmocka_unit_test(the_environment_stands_in_for_what_is_zero),
        cmocka_unit_test(a_variable_that_nobody_reads_is_warned_of),
        cmocka_unit_test(a_log_level_that_is_none_is_refused),
        cmocka_unit_test(transports_that_can_not_be_loaded_say_why),
        cmocka_unit_test(a_transport_in_use_is_not_unloaded),
        cmocka_unit_test(a_transport_loaded_again_serves_again),
        cmocka_unit_test(plugins_are_listed_with_what_they_are_or_why_not),
        cmocka_unit_test(the_configuration_is_listed_with_its_sources),
        cmocka_unit_test(a_variable_that_nobody_reads_is_listed_as_such),
        cmocka_unit_test(every_status_has_a_name_and_a_text),
        cmocka_unit_test(the_version_is_the_headers),
        cmocka_unit_test(a_sentence_is_the_threads_own),
        cmocka_unit_test(calls_that_succeed_leave_the_sentence_of_the_last_that_failed),
        cmocka_unit_test(an_address_that_can_not_be_given_is_empty_and_says_why),
        cmocka_unit_test(memory_and_tensors_come_and_go_while_an_unload_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
