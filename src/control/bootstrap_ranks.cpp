// The table of a group's ranks.
#include "control/bootstrap_ranks.h"

#include <utility>

namespace kvf {
namespace {

// The place that follows in the order of the table.
RankPlace next_place(RankPlace place, const GroupSizes &sizes) {
    if (++place.pp < sizes.pp)
        return place;
    place.pp = 0;
    if (++place.tp < sizes.tp)
        return place;
    place.tp = 0;
    if (++place.cp < sizes.cp)
        return place;
    place.cp = 0;
    ++place.dp;
    return place;
}

} // namespace

std::string BootstrapRanks::add(RankRegistration registration) {
    const RankPlace place = registration.record.place;
    if (!ranks_.empty()) {
        std::string difference = registrations_differ(topology_, extras_, registration);
        if (!difference.empty()) {
            if (place != RankPlace{} && ranks_.count(place) == 0)
                return difference;
            ranks_.clear();
        }
    }
    if (ranks_.empty() || place <= extras_of_) {
        extras_ = std::move(registration.extras);
        extras_of_ = place;
    }
    topology_ = std::move(registration.record.topology);
    ranks_[place] = std::move(registration.record.address);
    return {};
}

std::string BootstrapRanks::missing() const {
    if (ranks_.empty())
        return "none is there";
    RankPlace expected;
    for (const auto &entry : ranks_) {
        if (entry.first != expected)
            break;
        expected = next_place(expected, topology_.sizes);
    }
    return std::to_string(ranks_.size()) + " of " + std::to_string(topology_.sizes.ranks()) +
           " are there; the first missing has " + format_place(expected);
}

const RankAddress *BootstrapRanks::find(const RankPlace &place) const {
    const auto known = ranks_.find(place);
    return known == ranks_.end() ? nullptr : &known->second;
}

std::string format_ranks(const std::array<int64_t, 4> &ranks) {
    return "dp rank " + std::to_string(ranks[0]) + ", cp rank " + std::to_string(ranks[1]) + ", tp rank " +
           std::to_string(ranks[2]) + ", pp rank " + std::to_string(ranks[3]);
}

std::string format_place(const RankPlace &place) {
    return format_ranks({place.dp, place.cp, place.tp, place.pp});
}

} // namespace kvf
