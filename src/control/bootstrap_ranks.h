// The table of one prefill group's ranks: who is registered, whether all are, and what happens when one comes back
// with another configuration.
#pragma once

#include "control/bootstrap_messages.h"

#include <array>
#include <map>
#include <string>

namespace kvf {

class BootstrapRanks {
  public:
    // A rank that registers again replaces its entry. "" when it was taken, else why not.
    //
    // A rank whose configuration is not that of the table is refused, for two configurations can't serve one room.
    // But a rank that is in the table already, or the group's first, has restarted with a new configuration: the
    // table starts anew with it. (The first rank counts even when it is missing from the table, so that no table
    // that was only half filled can lock the group out.)
    std::string add(RankRegistration registration);

    bool complete() const { return !ranks_.empty() && ranks_.size() == topology_.sizes.ranks(); }

    // "1 of 4 are there; the first missing has dp rank 0, cp rank 0, tp rank 1, pp rank 0"
    std::string missing() const;

    // Only when complete.
    std::string topology_reply() const { return topology_body(topology_, extras_); }

    const RankAddress *find(const RankPlace &place) const;

  private:
    Topology topology_;
    boost::json::object extras_; // of extras_of_, the lowest rank there is
    RankPlace extras_of_;
    std::map<RankPlace, RankAddress> ranks_;
};

// "dp rank 0, cp rank 0, tp rank 1, pp rank 0"
std::string format_ranks(const std::array<int64_t, 4> &ranks);
std::string format_place(const RankPlace &place);

} // namespace kvf
