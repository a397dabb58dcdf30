// Names, texts, versions, the log and the listings that need no engine.
#include "api/boundary.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status_text.h"
#include "plugin/loader.h"
#include "plugin/search.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace kvf {
namespace {

std::atomic<uint32_t> g_forks{0};

void count_fork() {
    g_forks.fetch_add(1, std::memory_order_relaxed);
}

const int g_watching = pthread_atfork(nullptr, nullptr, count_fork);

} // namespace

uint32_t forks() {
    return g_forks.load(std::memory_order_relaxed);
}

} // namespace kvf

#define KVF_TEXT(number) KVF_TEXT_OF(number)
#define KVF_TEXT_OF(number) #number

const char *kvf_strerror(int status) {
    return kvf::status_text(status);
}

const char *kvf_status_name(int status) {
    return kvf::status_name(status);
}

const char *kvf_last_error(void) {
    return kvf::last_sentence().c_str();
}

uint32_t kvf_version(void) {
    return KVF_VERSION;
}

const char *kvf_version_string(void) {
    return KVF_TEXT(KVF_VERSION_MAJOR) "." KVF_TEXT(KVF_VERSION_MINOR) "." KVF_TEXT(KVF_VERSION_PATCH);
}

int kvf_log_set(kvf_log_fn fn, void *user, int32_t level) {
    return kvf::fenced([&]() -> kvf::Status {
        if (level < 0 || level > KVF_LOG_DEBUG)
            return kvf::fail(KVF_ERR_INVALID, "level is %d; expected 0 to KVF_LOG_DEBUG (%d)", level, KVF_LOG_DEBUG);
        kvf::log_set(fn, user, level);
        return {};
    });
}

int kvf_config_list(kvf_config_entry *entries, size_t capacity, size_t stride) {
    return kvf::fenced([&] {
        std::vector<kvf_config_entry> list = kvf::config_entries();
        for (const kvf_config_entry &unread : kvf::config_unread(kvf::plugin_names()))
            list.push_back(unread);
        return kvf::write_list(list, entries, capacity, stride, "entries");
    });
}

int kvf_plugin_list(kvf_plugin_info *plugins, size_t capacity, size_t stride) {
    return kvf::fenced([&] { return kvf::write_list(kvf::list_plugins(), plugins, capacity, stride, "plugins"); });
}
