// Makes a prefill engine known to its bootstrap server: once it has tensors, again after a failure, and from time to
// time in case the server was started anew.
#pragma once

#include "control/alarm.h"
#include "control/control_config.h"
#include "control/control_port.h"
#include "control/counters.h"
#include "control/retry.h"

#include <cstdint>
#include <string>

namespace kvf {

class Registration {
  public:
    // address: this engine's control address, "tcp://host:port".
    Registration(const ControlConfig &config, const std::string &address, ControlPort &port, Alarm &alarm,
                 ControlCounters &counters);

    // The engine has tensors. Does nothing without a bootstrap server, or when it was said before.
    void begin(uint64_t now);
    void end();

    void registered(uint64_t request, const Status &status, uint64_t now);
    void tick(uint64_t now);

  private:
    const ControlConfig &config_;
    ControlPort &port_;
    Alarm &alarm_;
    ControlCounters &counters_;
    RankRecord record_;
    bool begun_ = false;
    uint64_t request_ = 0;      // under way; 0: none
    uint64_t next_request_ = 1; // odd: the even ones are Finder's
    uint64_t next_at_ = kNever;
    Retry retry_;
    std::string why_; // the last failure
};

} // namespace kvf
