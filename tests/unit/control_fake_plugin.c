/* A transport plugin without a transport: its operations are those that the test program exports. */
#include <kvferry/plugin.h>

#include <dlfcn.h>

int kvf_plugin_query(const kvf_host *host, kvf_plugin *plugin) {
    (void)host;
    plugin->abi_major = KVF_PLUGIN_ABI_MAJOR;
    plugin->abi_minor = KVF_PLUGIN_ABI_MINOR;
    plugin->kind = KVF_PLUGIN_TRANSPORT;
    plugin->name = FAKE_NAME;
    plugin->description = "the test's own";
    plugin->capabilities = KVF_CAP_WRITE | KVF_CAP_STRIDED | KVF_CAP_FENCE;
    plugin->ops = (const kvf_transport_ops *)dlsym(RTLD_DEFAULT, "fake_transport_ops");
    return plugin->ops != NULL ? KVF_OK : KVF_ERR_INTERNAL;
}
