// Finding plugins and negotiating with them: every way to be refused, with its reason.
#include "plugin/loader.h"

#include "plugin/search.h"
#include "plugin_fixtures.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace kvf {
namespace {

class Loader : public PluginTest {
  protected:
    static Status refusal(const std::string &name) {
        std::shared_ptr<const Plugin> plugin;
        Status status = Plugin::load(fixtures("bad") + "/" + name + ".so", &plugin);
        EXPECT_EQ(plugin, nullptr);
        return status;
    }

    static std::shared_ptr<const Plugin> good(const std::string &name) {
        std::shared_ptr<const Plugin> plugin;
        const Status status = load_plugin(name, &plugin);
        EXPECT_TRUE(status.ok()) << status.sentence();
        return plugin;
    }
};

TEST_F(Loader, each_refusal_has_its_reason) {
    const struct {
        const char *name;
        int code;
        const char *sentence;
    } cases[] = {
        {"absent", KVF_ERR_NO_TRANSPORT, "no such file"},
        {"silent", KVF_ERR_NO_TRANSPORT, "exports no kvf_plugin_query"},
        {"future", KVF_ERR_PLUGIN_ABI, "built for plugin ABI 99.3, this library has 1.0"},
        {"polite", KVF_ERR_PLUGIN_ABI, "built for plugin ABI 99.3, this library has 1.0"},
        {"impostor", KVF_ERR_NO_TRANSPORT, "calls itself \"other\""},
        {"nameless", KVF_ERR_NO_TRANSPORT, "calls itself \"\""},
        {"strange", KVF_ERR_UNSUPPORTED, "is neither a transport nor a decorator (kind 77)"},
        {"tableless", KVF_ERR_NO_TRANSPORT, "has no table of operations"},
        {"unwilling", KVF_ERR_NO_TRANSPORT, "no device of that kind"},
        {"incomplete", KVF_ERR_NO_TRANSPORT, "lacks the required operation poll"},
        {"reading", KVF_ERR_NO_TRANSPORT, "can't write (lacks KVF_CAP_WRITE), and rooms are moved by writes"},
        {"headless", KVF_ERR_NO_TRANSPORT, "lacks the required operation open"},
    };
    for (const auto &it : cases) {
        const Status status = refusal(it.name);
        EXPECT_EQ(status.code(), it.code) << it.name;
        EXPECT_EQ(status.sentence(), it.sentence) << it.name;
    }
    const Status garbage = refusal("garbage");
    EXPECT_EQ(garbage.code(), KVF_ERR_NO_TRANSPORT);
    EXPECT_FALSE(garbage.sentence().empty());
}

TEST_F(Loader, a_plugin_is_taken_with_its_name_path_and_features) {
    search(fixtures("good"));
    const auto plugin = good("memory");
    EXPECT_EQ(plugin->name(), "memory");
    EXPECT_EQ(plugin->path(), fixtures("good") + "/memory.so");
    EXPECT_EQ(plugin->kind(), uint32_t{KVF_PLUGIN_TRANSPORT});
    EXPECT_NE(plugin->capabilities() & KVF_CAP_CANCEL, 0U);
    EXPECT_NE(plugin->ops().cancel, nullptr);
    EXPECT_EQ(plugin->table().ops, &plugin->ops());
}

TEST_F(Loader, a_newer_minor_is_taken_and_what_it_adds_is_left_alone) {
    search(fixtures("good"));
    const auto plugin = good("newer");
    EXPECT_EQ(plugin->table().abi_minor, uint32_t{KVF_PLUGIN_ABI_MINOR + 7});
    EXPECT_EQ(plugin->ops().struct_size, sizeof(kvf_transport_ops));
    EXPECT_NE(plugin->ops().counters, nullptr);
}

TEST_F(Loader, a_shorter_table_is_a_plugin_without_those_features) {
    search(fixtures("good"));
    const auto plugin = good("shorter");
    EXPECT_EQ(plugin->capabilities(), uint64_t{KVF_CAP_WRITE | KVF_CAP_READ | KVF_CAP_SAME_HOST});
    EXPECT_EQ(plugin->ops().struct_size, sizeof(kvf_transport_ops));
    EXPECT_NE(plugin->ops().poll, nullptr);
    EXPECT_EQ(plugin->ops().peer_export, nullptr);
    EXPECT_EQ(plugin->ops().fence, nullptr);
    EXPECT_EQ(plugin->ops().counters, nullptr);
}

TEST_F(Loader, an_operation_whose_bit_is_missing_is_not_there) {
    search(fixtures("good"));
    const auto plugin = good("modest");
    EXPECT_EQ(plugin->capabilities(), uint64_t{KVF_CAP_WRITE});
    EXPECT_EQ(plugin->ops().fence, nullptr);
    EXPECT_EQ(plugin->ops().cancel, nullptr);
    EXPECT_EQ(plugin->ops().wait, nullptr);
    EXPECT_EQ(plugin->ops().event_fd, nullptr);
}

TEST_F(Loader, a_refused_file_does_not_hide_a_usable_one_behind_it) {
    search(fixtures("shadow") + "::" + fixtures("nowhere") + ":" + fixtures("good"));
    EXPECT_EQ(good("memory")->path(), fixtures("good") + "/memory.so");
}

TEST_F(Loader, the_refusal_lists_every_file_with_its_reason) {
    search(fixtures("nowhere") + ":" + fixtures("bad"));
    std::shared_ptr<const Plugin> plugin;
    const Status status = load_plugin("unwilling", &plugin);
    EXPECT_EQ(status.code(), KVF_ERR_NO_TRANSPORT);
    std::string expected = "no usable plugin \"unwilling\": ";
    for (const std::string &folder : plugin_folders()) {
        if (folder != plugin_folders().front())
            expected += "; ";
        expected +=
            folder + "/unwilling.so: " + (folder == fixtures("bad") ? "no device of that kind" : "no such file");
    }
    EXPECT_EQ(status.sentence(), expected);
}

TEST_F(Loader, another_abi_anywhere_is_the_code_of_the_whole) {
    search(fixtures("shadow") + ":" + fixtures("nowhere"));
    std::shared_ptr<const Plugin> plugin;
    const Status status = load_plugin("memory", &plugin);
    EXPECT_EQ(status.code(), KVF_ERR_PLUGIN_ABI);
    EXPECT_NE(status.sentence().find("built for plugin ABI 99.3, this library has 1.0"), std::string::npos);
}

TEST_F(Loader, what_is_no_name_is_not_looked_for) {
    search(fixtures("good"));
    std::shared_ptr<const Plugin> plugin;
    for (const char *name : {"", "../good/memory", "good/memory", "memory.so", "Memory", "a+b", "a b",
                             "a-name-of-more-than-thirty-one-bytes"})
        EXPECT_EQ(load_plugin(name, &plugin).code(), KVF_ERR_INVALID) << name;
    EXPECT_EQ(plugin, nullptr);
}

TEST_F(Loader, the_build_tree_and_the_installed_folders_follow_the_path) {
    search("/first:/second:/first");
    const std::vector<std::string> folders = plugin_folders();
    ASSERT_GE(folders.size(), 5U);
    EXPECT_EQ(folders[0], "/first");
    EXPECT_EQ(folders[1], "/second");
    EXPECT_EQ(folders[2], KVF_TEST_PLUGINS);
    EXPECT_TRUE(folders[3].ends_with("/kvferry-1")) << folders[3];
    EXPECT_TRUE(folders.back().ends_with("/kvferry-1")) << folders.back();
}

TEST_F(Loader, the_listing_has_usable_and_refused_plugins) {
    search(fixtures("good") + ":" + fixtures("bad"));
    const std::vector<kvf_plugin_info> list = list_plugins();
    const auto of = [&](const char *name) {
        const auto at = std::ranges::find_if(list, [&](const auto &info) { return std::strcmp(info.name, name) == 0; });
        EXPECT_NE(at, list.end()) << name;
        return at != list.end() ? *at : kvf_plugin_info{};
    };
    const kvf_plugin_info memory = of("memory");
    EXPECT_STREQ(memory.refused, "");
    EXPECT_EQ(memory.path, fixtures("good") + "/memory.so");
    EXPECT_STREQ(memory.description, "between engines of one process; for tests");
    EXPECT_EQ(memory.kind, uint32_t{KVF_PLUGIN_TRANSPORT});
    EXPECT_EQ(memory.abi_major, uint32_t{KVF_PLUGIN_ABI_MAJOR});
    EXPECT_NE(memory.capabilities & KVF_CAP_WRITE, 0U);
    EXPECT_EQ(of("fault").kind, uint32_t{KVF_PLUGIN_DECORATOR});
    EXPECT_STREQ(of("future").refused, "built for plugin ABI 99.3, this library has 1.0");
    EXPECT_STRNE(of("garbage").refused, "");
}

TEST_F(Loader, the_names_are_each_there_once_and_in_order) {
    search(fixtures("good") + ":" + fixtures("shadow"));
    const std::vector<std::string> names = plugin_names();
    EXPECT_TRUE(std::ranges::is_sorted(names));
    EXPECT_EQ(std::ranges::count(names, "memory"), 1);
    EXPECT_EQ(std::ranges::count(names, "fault"), 1);
}

} // namespace
} // namespace kvf
