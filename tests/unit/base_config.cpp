// The configuration table: values from the environment, refusals, the listing, plugins' variables, unread ones.
#include "base/config.h"

#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace kvf {
namespace {

// A variable for the length of a test.
class Variable {
  public:
    Variable(const char *name, const char *value) : name_(name) { setenv(name, value, 1); }
    ~Variable() { unsetenv(name_); }
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

  private:
    const char *name_;
};

uint64_t number(ConfigKey key) {
    uint64_t out = 0;
    const Status status = config_u64(key, &out);
    EXPECT_TRUE(status.ok()) << status.sentence();
    return out;
}

TEST(Config, without_an_environment_the_defaults_of_the_header_hold) {
    EXPECT_EQ(number(ConfigKey::log), uint64_t{KVF_LOG_WARN});
    EXPECT_EQ(number(ConfigKey::max_rooms), 131072U);
    EXPECT_EQ(number(ConfigKey::inbox), 65536U);
    EXPECT_EQ(number(ConfigKey::window_ops), 64U);
    EXPECT_EQ(number(ConfigKey::window_bytes), uint64_t{64} << 20);
    EXPECT_EQ(number(ConfigKey::bootstrap_ms), 300000U);
    EXPECT_EQ(number(ConfigKey::waiting_ms), 300000U);
    EXPECT_EQ(number(ConfigKey::transfer_ms), 300000U);
    EXPECT_EQ(number(ConfigKey::heartbeat_ms), 5000U);
    EXPECT_EQ(number(ConfigKey::max_unclaimed), 65536U);
    const uint64_t shards = number(ConfigKey::shards);
    EXPECT_TRUE(shards >= 1 && shards <= 4) << shards;
    std::string listen;
    ASSERT_TRUE(config_string(ConfigKey::listen, &listen).ok());
    EXPECT_EQ(listen, "tcp://127.0.0.1:0");
    EXPECT_TRUE(config_check().ok());
}

TEST(Config, the_environment_wins_and_an_empty_variable_is_unset) {
    const Variable shards("KVF_SHARDS", "7");
    EXPECT_EQ(number(ConfigKey::shards), 7U);
    const Variable rooms("KVF_MAX_ROOMS", "");
    EXPECT_EQ(number(ConfigKey::max_rooms), 131072U);
}

TEST(Config, sizes_take_a_suffix) {
    for (const auto &[text, bytes] : std::vector<std::pair<const char *, uint64_t>>{
             {"4096", 4096}, {"16K", 16 << 10}, {"3m", 3 << 20}, {"2G", uint64_t{2} << 30}}) {
        const Variable window("KVF_WINDOW_BYTES", text);
        EXPECT_EQ(number(ConfigKey::window_bytes), bytes) << text;
    }
}

TEST(Config, a_value_that_does_not_parse_names_variable_value_and_what_was_expected) {
    const Variable window("KVF_WINDOW_BYTES", "64Q");
    uint64_t out = 5;
    const Status status = config_u64(ConfigKey::window_bytes, &out);
    EXPECT_EQ(status.code(), KVF_ERR_OPTION);
    EXPECT_EQ(out, 5U);
    EXPECT_EQ(status.sentence(),
              "KVF_WINDOW_BYTES is \"64Q\"; expected a number with an optional K, M or G, from 1 to 281474976710656");
    EXPECT_EQ(config_check().sentence(), status.sentence());
}

TEST(Config, what_is_out_of_range_or_of_another_form_is_refused) {
    for (const auto &[name, key, value] : std::vector<std::tuple<const char *, ConfigKey, const char *>>{
             {"KVF_SHARDS", ConfigKey::shards, "0"},
             {"KVF_SHARDS", ConfigKey::shards, "257"},
             {"KVF_SHARDS", ConfigKey::shards, "-1"},
             {"KVF_SHARDS", ConfigKey::shards, "4 "},
             {"KVF_MAX_ROOMS", ConfigKey::max_rooms, "16777217"},
             {"KVF_MAX_ROOMS", ConfigKey::max_rooms, "auto"},
             {"KVF_WINDOW_OPS", ConfigKey::window_ops, "1K"},
             {"KVF_WAITING_MS", ConfigKey::waiting_ms, "99999999999999999999"},
             {"KVF_WINDOW_BYTES", ConfigKey::window_bytes, "18446744073709551615G"},
             {"KVF_WINDOW_BYTES", ConfigKey::window_bytes, "G"},
             {"KVF_LOG", ConfigKey::log, "loud"}}) {
        const Variable variable(name, value);
        uint64_t out = 0;
        const Status status = config_u64(key, &out);
        EXPECT_EQ(status.code(), KVF_ERR_OPTION) << name << "=" << value;
        EXPECT_NE(status.sentence().find(name), std::string::npos) << status.sentence();
    }
}

TEST(Config, the_listing_has_every_row_with_its_value_and_source) {
    const Variable shards("KVF_SHARDS", "3");
    const Variable inbox("KVF_INBOX", "many");
    const std::vector<kvf_config_entry> entries = config_entries();
    EXPECT_EQ(entries.size(), 14U);
    std::vector<std::string> seen;
    for (const kvf_config_entry &entry : entries) {
        seen.emplace_back(entry.name);
        EXPECT_NE(std::strlen(entry.description), 0U) << entry.name;
        if (seen.back() == "KVF_SHARDS") {
            EXPECT_STREQ(entry.value, "3");
            EXPECT_STREQ(entry.source, "environment");
            EXPECT_STREQ(entry.default_value, "auto");
        } else if (seen.back() == "KVF_INBOX") {
            EXPECT_STREQ(entry.value, "many");
            EXPECT_STREQ(entry.source, "environment (does not parse)");
        } else {
            EXPECT_STREQ(entry.value, entry.default_value) << entry.name;
            EXPECT_STREQ(entry.source, "default") << entry.name;
        }
    }
}

TEST(Config, a_long_value_is_cut_in_the_listing_and_whole_in_the_lookup) {
    const std::string path(500, 'p');
    const Variable variable("KVF_PLUGIN_PATH", path.c_str());
    std::string whole;
    ASSERT_TRUE(config_string(ConfigKey::plugin_path, &whole).ok());
    EXPECT_EQ(whole, path);
    for (const kvf_config_entry &entry : config_entries())
        if (std::strcmp(entry.name, "KVF_PLUGIN_PATH") == 0) {
            EXPECT_EQ(std::strlen(entry.value), sizeof entry.value - 1);
        }
}

TEST(Config, what_a_plugin_read_outlives_the_variable) {
    const char *value = nullptr;
    {
        const Variable variable("KVF_PROBE_KEPT", "first");
        value = config_plugin_value("PROBE_KEPT");
        setenv("KVF_PROBE_KEPT", "second, and longer than the first", 1);
    }
    ASSERT_NE(value, nullptr);
    EXPECT_STREQ(value, "first");
    EXPECT_EQ(config_plugin_value("PROBE_KEPT"), nullptr);
    EXPECT_EQ(config_plugin_value(nullptr), nullptr);
}

class UnreadVariables : public testing::Test {
  protected:
    void SetUp() override {
        log_set(
            [](void *user, int32_t, const char *line) { static_cast<UnreadVariables *>(user)->lines_.push_back(line); },
            this, KVF_LOG_WARN);
    }
    void TearDown() override { log_set(nullptr, nullptr, 0); }

    std::vector<std::string> lines_;
};

TEST_F(UnreadVariables, a_misspelt_one_is_told_once_with_the_name_that_was_meant) {
    const Variable variable("KVF_SHARD", "2");
    config_warn_unread({});
    config_warn_unread({});
    ASSERT_EQ(lines_.size(), 1U);
    EXPECT_EQ(lines_[0], "KVF_SHARD is set but nothing reads it (did you mean KVF_SHARDS?)");
}

TEST_F(UnreadVariables, one_like_no_other_is_told_without_a_guess) {
    const Variable variable("KVF_FROBNICATE", "2");
    config_warn_unread({});
    ASSERT_EQ(lines_.size(), 1U);
    EXPECT_EQ(lines_[0], "KVF_FROBNICATE is set but nothing reads it");
}

TEST_F(UnreadVariables, those_of_the_table_of_plugins_and_of_others_are_not_told) {
    const Variable known("KVF_SHARDS", "2");
    const Variable prefixed("KVF_MY_SHM_SIZE", "2");
    const Variable asked("KVF_OTHER_KEY", "2");
    const Variable foreign("KVFERRY", "2");
    EXPECT_STREQ(config_plugin_value("OTHER_KEY"), "2");
    config_warn_unread({"my-shm"});
    EXPECT_TRUE(lines_.empty()) << lines_[0];
}

} // namespace
} // namespace kvf
