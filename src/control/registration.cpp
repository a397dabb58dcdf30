#include "control/registration.h"

#include "base/log.h"
#include "control/bootstrap_address.h"

namespace kvf {
namespace {

constexpr uint64_t kAgain = 30'000 * kNanosPerMilli;

} // namespace

Registration::Registration(const ControlConfig &config, const std::string &address, ControlPort &port, Alarm &alarm,
                           ControlCounters &counters)
    : config_(config), port_(port), alarm_(alarm), counters_(counters) {
    HostPort host_port;
    if (config.bootstrap.empty() || !parse_tcp("control address", address, &host_port).ok())
        return;
    record_.place = {config.dp_rank, 0, config.tp_rank, config.pp_rank};
    record_.address = {host_port.host, host_port.port};
    record_.topology.sizes = {config.dp_size, 1, config.tp_size, config.pp_size};
    record_.topology.page_size = config.page_tokens;
    record_.topology.kv_cache_dtype = config.kv_cache_dtype;
}

void Registration::begin(uint64_t now) {
    if (begun_ || record_.address.port == 0)
        return;
    begun_ = true;
    HostPort server;
    if (is_loopback(record_.address.ip) && parse_host_port("bootstrap", config_.bootstrap, &server).ok() &&
        !is_loopback(server.host))
        log(KVF_LOG_WARN, "%s: registers %s with %s, but no other host reaches that address (see KVF_LISTEN)",
            config_.name.c_str(), record_.address.ip.c_str(), config_.bootstrap.c_str());
    next_at_ = now;
    tick(now);
}

void Registration::end() {
    next_at_ = kNever;
    request_ = 0; // its answer is nobody's
}

void Registration::tick(uint64_t now) {
    if (now < next_at_) {
        alarm_.by(next_at_);
        return;
    }
    next_at_ = kNever;
    request_ = next_request_;
    next_request_ += 2;
    port_.register_rank(request_, config_.bootstrap, record_);
}

void Registration::registered(uint64_t request, const Status &status, uint64_t now) {
    if (request != request_)
        return;
    request_ = 0;
    if (status.ok()) {
        if (!why_.empty())
            log(KVF_LOG_INFO, "%s: registered with %s", config_.name.c_str(), config_.bootstrap.c_str());
        why_.clear();
        retry_.reset();
        next_at_ = now + kAgain;
    } else {
        counters_.add(ControlCounter::bootstrap_failures);
        if (why_ != status.sentence())
            log(KVF_LOG_WARN, "%s: not registered with %s, trying again: %s", config_.name.c_str(),
                config_.bootstrap.c_str(), status.sentence().c_str());
        why_ = status.sentence();
        next_at_ = now + retry_.pause();
    }
    alarm_.by(next_at_);
}

} // namespace kvf
