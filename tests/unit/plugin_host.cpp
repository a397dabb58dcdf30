// The services that plugins get.
#include "plugin/host.h"

#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace kvf {
namespace {

TEST(Host, its_table_tells_its_abi_and_is_complete) {
    const kvf_host &host = *plugin_host();
    EXPECT_EQ(host.struct_size, sizeof(kvf_host));
    EXPECT_EQ(host.abi_major, uint32_t{KVF_PLUGIN_ABI_MAJOR});
    EXPECT_EQ(host.abi_minor, uint32_t{KVF_PLUGIN_ABI_MINOR});
    EXPECT_TRUE(host.log != nullptr && host.fail != nullptr && host.config != nullptr && host.memory_kind != nullptr);
}

TEST(Host, a_sentence_is_kept_for_its_thread_and_taken_once) {
    plugin_host()->fail("first");
    plugin_host()->fail("second");
    std::thread([] {
        EXPECT_EQ(take_plugin_sentence(), "");
        plugin_host()->fail("of another thread");
    }).join();
    EXPECT_EQ(take_plugin_sentence(), "second");
    EXPECT_EQ(take_plugin_sentence(), "");
    plugin_host()->fail(nullptr);
    EXPECT_EQ(take_plugin_sentence(), "");
}

TEST(Host, lines_of_plugins_reach_the_log_at_a_level_that_it_has) {
    std::string lines;
    log_set([](void *user, int32_t level,
               const char *line) { *static_cast<std::string *>(user) += std::to_string(level) + line + ";"; },
            &lines, KVF_LOG_WARN);
    plugin_host()->log(KVF_LOG_WARN, "100%s");
    plugin_host()->log(-7, "odd");
    plugin_host()->log(99, "too fine");
    plugin_host()->log(KVF_LOG_ERROR, nullptr);
    log_set(nullptr, nullptr, 0);
    EXPECT_EQ(lines, "2100%s;1odd;");
}

TEST(Host, configuration_and_memory_kinds) {
    setenv("KVF_PROBE_SIZE", "12", 1);
    EXPECT_STREQ(plugin_host()->config("PROBE_SIZE"), "12");
    unsetenv("KVF_PROBE_SIZE");
    EXPECT_EQ(plugin_host()->config("PROBE_SIZE"), nullptr);
    EXPECT_STREQ(plugin_host()->memory_kind(KVF_MEMORY_HOST), "host");
    EXPECT_EQ(plugin_host()->memory_kind(99), nullptr);
}

} // namespace
} // namespace kvf
