// Search paths over the fixtures of tests/plugin/fixtures, for tests of loading.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace kvf {

inline std::string fixtures(const std::string &folder) {
    std::string path = KVF_TEST_FIXTURES "/";
    path += folder;
    return path;
}

class PluginTest : public testing::Test {
  protected:
    void TearDown() override { unsetenv("KVF_PLUGIN_PATH"); }

    static void search(const std::string &path) { setenv("KVF_PLUGIN_PATH", path.c_str(), 1); }
};

} // namespace kvf
