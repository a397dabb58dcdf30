// The host's table. Its functions are called from C, so nothing may be thrown out of them.
#include "plugin/host.h"

#include "base/config.h"
#include "base/log.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace kvf {
namespace {

thread_local std::string t_plugin_sentence;

void host_log(int32_t level, const char *message) {
    if (message != nullptr)
        log(std::clamp<int32_t>(level, KVF_LOG_ERROR, KVF_LOG_DEBUG), "%s", message);
}

void host_fail(const char *sentence) {
    try {
        t_plugin_sentence = sentence != nullptr ? sentence : "";
    } catch (const std::exception &) {
        t_plugin_sentence.clear();
    }
}

const char *host_memory_kind(uint32_t kind) {
    return kind == KVF_MEMORY_HOST ? "host" : nullptr;
}

constexpr kvf_host kHost = {
    sizeof(kvf_host), KVF_PLUGIN_ABI_MAJOR, KVF_PLUGIN_ABI_MINOR, 0, host_log,
    host_fail,        config_plugin_value,  host_memory_kind,
};

} // namespace

const kvf_host *plugin_host() {
    return &kHost;
}

std::string take_plugin_sentence() {
    return std::exchange(t_plugin_sentence, {});
}

void clear_plugin_sentence() {
    t_plugin_sentence.clear();
}

} // namespace kvf
