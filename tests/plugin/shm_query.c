/* The plugin as a host meets it: the query, the table, the options. */
#include "shm_rig.h"

#include <string.h>

static void query_tells_what_the_plugin_is(void **state) {
    (void)state;
    const kvf_plugin *plugin = shm_plugin();
    assert_int_equal(plugin->abi_major, KVF_PLUGIN_ABI_MAJOR);
    assert_int_equal(plugin->kind, KVF_PLUGIN_TRANSPORT);
    assert_string_equal(plugin->name, "shm");
    assert_non_null(strstr(plugin->description, "Linux"));
    assert_int_equal(plugin->capabilities,
                     KVF_CAP_WRITE | KVF_CAP_READ | KVF_CAP_STRIDED | KVF_CAP_FENCE | KVF_CAP_SAME_HOST);
}

static void query_of_a_host_of_another_major_is_refused(void **state) {
    (void)state;
    kvf_host host = *shm_host();
    kvf_plugin plugin = {.struct_size = sizeof plugin};
    host.abi_major = KVF_PLUGIN_ABI_MAJOR + 1;
    expect_status(KVF_ERR_PLUGIN_ABI, shm_query(&host, &plugin));
    expect_words("ABI");
    assert_null(plugin.ops);
    plugin.struct_size = sizeof plugin;
    expect_status(KVF_OK, shm_query(shm_host(), &plugin));
}

static void query_fills_no_more_than_the_host_knows(void **state) {
    (void)state;
    kvf_plugin plugin;
    memset(&plugin, 0xee, sizeof plugin);
    plugin.struct_size = offsetof(kvf_plugin, capabilities);
    expect_status(KVF_OK, shm_query(shm_host(), &plugin));
    assert_int_equal(plugin.struct_size, offsetof(kvf_plugin, capabilities));
    const unsigned char *tail = (const unsigned char *)&plugin + offsetof(kvf_plugin, capabilities);
    for (size_t i = 0; i < sizeof plugin - offsetof(kvf_plugin, capabilities); ++i)
        assert_int_equal(tail[i], 0xee);
}

static void capabilities_and_table_agree(void **state) {
    (void)state;
    const kvf_transport_ops *ops = shm_ops();
    assert_int_equal(ops->struct_size, sizeof *ops);
    assert_non_null(ops->fence);
    assert_non_null(ops->counters);
    assert_null(ops->wait);
    assert_null(ops->event_fd);
    assert_null(ops->arm);
    assert_null(ops->cancel);
}

static void every_option_value_is_taken(void **state) {
    (void)state;
    const char *good[] = {"",        "cma=on",         "cma=off",        "cma=only",        "map=on",
                          "map=off", "cma=on,map=off", "map=on,cma=off", "cma=only,map=off"};
    for (size_t i = 0; i < sizeof good / sizeof *good; ++i)
        expect_status(KVF_OK, side_try_open(good[i]));
    expect_status(KVF_OK, side_try_open(NULL));
}

static void wrong_option_is_named_with_what_was_expected(void **state) {
    (void)state;
    const struct {
        const char *options, *word, *expected;
    } bad[] = {
        {"huge=on", "huge", "map"},
        {"cma=maybe", "maybe", "on, off or only"},
        {"map=only", "only", "on or off"},
        {"map", "map", "has no value"},
        {"cma=", "cma", "on, off or only"},
        {"=on", "no option", "cma"},
        {"cma=on,,map=on", "no option", "cma"},
        {"cma=on,cma=off", "cma", "twice"},
        {"cma=ON", "ON", "on, off or only"},
        {"cma=only,map=on", "cma=only", "contradict"},
        {"cma=off,map=off", "map=off", "no way"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        expect_status(KVF_ERR_OPTION, side_try_open(bad[i].options));
        expect_words(bad[i].word);
        expect_words(bad[i].expected);
    }
}

static void environment_holds_where_no_option_is_given(void **state) {
    (void)state;
    shm_set_variable("SHM_MAP", "off");
    expect_status(KVF_ERR_OPTION, side_try_open("cma=off"));
    expect_status(KVF_OK, side_try_open("cma=off,map=on"));
    shm_set_variable("SHM_CMA", "perhaps");
    expect_status(KVF_ERR_OPTION, side_try_open(""));
    expect_words("KVF_SHM_CMA");
    expect_words("perhaps");
    expect_status(KVF_OK, side_try_open("cma=on"));
    shm_set_variable(NULL, NULL);
}

static void parameters_of_a_smaller_struct_are_refused(void **state) {
    (void)state;
    kvf_instance *instance = NULL;
    const kvf_open_params params = {.struct_size = 8, .options = ""};
    expect_status(KVF_ERR_INVALID, shm_ops()->open(&params, &instance));
    assert_null(instance);
}

static void counters_tell_how_many_there_are(void **state) {
    (void)state;
    side one;
    side_open(&one, MEMORY_PLAIN, PAGE, "");
    const int count = shm_ops()->counters(one.instance, NULL, 0);
    assert_true(count >= 5);
    kvf_counter list[2] = {{"untouched", 1}, {"untouched", 1}};
    assert_int_equal(shm_ops()->counters(one.instance, list, 1), count);
    assert_string_not_equal(list[0].name, "untouched");
    assert_string_equal(list[1].name, "untouched");
    side_close(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_tells_what_the_plugin_is),
        cmocka_unit_test(query_of_a_host_of_another_major_is_refused),
        cmocka_unit_test(query_fills_no_more_than_the_host_knows),
        cmocka_unit_test(capabilities_and_table_agree),
        cmocka_unit_test(every_option_value_is_taken),
        cmocka_unit_test(wrong_option_is_named_with_what_was_expected),
        cmocka_unit_test(environment_holds_where_no_option_is_given),
        cmocka_unit_test(parameters_of_a_smaller_struct_are_refused),
        cmocka_unit_test(counters_tell_how_many_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
