/* A plugin whose transport is the simulator's: the program that loads it exports the answer. */
#include <dlfcn.h>
#include <kvferry/plugin.h>

int kvf_plugin_query(const kvf_host *host, kvf_plugin *plugin) {
    kvf_plugin_query_fn query;
    *(void **)&query = dlsym(RTLD_DEFAULT, "kvf_sim_plugin_query");
    plugin->name = SIM_PLUGIN_NAME;
    return query ? query(host, plugin) : KVF_ERR_UNSUPPORTED;
}
