// The embedded bootstrap server.
#include "control/bootstrap_server.h"

#include "api/boundary.h"
#include "base/config.h"

struct kvf_bootstrap {
    std::unique_ptr<kvf::BootstrapServer> server;
    uint32_t forks = 0;
};

int kvf_bootstrap_start(const kvf_bootstrap_config *config, kvf_bootstrap **bootstrap) {
    return kvf::fenced([&]() -> kvf::Status {
        kvf_bootstrap_config known;
        kvf::Status status = kvf::read_optional(config, "kvf_bootstrap_config", &known);
        if (status.ok())
            status = kvf::check_not_null(bootstrap, "bootstrap");
        if (!status.ok())
            return status;
        auto made = std::make_unique<kvf_bootstrap>();
        made->forks = kvf::forks();
        uint64_t trusted = 0;
        if (status = kvf::config_u64(kvf::ConfigKey::trust_network, &trusted); !status.ok())
            return status;
        status = kvf::BootstrapServer::start(known.listen ? known.listen : "127.0.0.1:0", trusted != 0,
                                             known.max_rooms ? known.max_rooms : 65536, &made->server);
        if (status.ok())
            *bootstrap = made.release();
        return status;
    });
}

const char *kvf_bootstrap_address(kvf_bootstrap *bootstrap) {
    const char *text = "";
    (void)kvf::fenced([&]() -> kvf::Status {
        kvf::Status usable = kvf::check_not_null(bootstrap, "bootstrap");
        if (usable.ok() && bootstrap->forks != kvf::forks())
            usable =
                kvf::fail(KVF_ERR_FORKED, "the server was made before fork(); in the child it can only be stopped");
        if (usable.ok())
            text = bootstrap->server->address().c_str();
        return usable;
    });
    return text;
}

int kvf_bootstrap_stop(kvf_bootstrap *bootstrap) {
    return kvf::fenced([&]() -> kvf::Status {
        const std::unique_ptr<kvf_bootstrap> owned(bootstrap);
        return {};
    });
}
