// The bounded table of rooms and dp ranks.
#include "control/bootstrap_rooms.h"

#include <algorithm>

namespace kvf {

BootstrapRooms::BootstrapRooms(uint32_t max_rooms) : max_rooms_(std::max(max_rooms, 1U)) {}

void BootstrapRooms::put(uint64_t room_id, uint32_t dp_rank) {
    const uint64_t age = next_age_++;
    by_age_.emplace(age, room_id);
    const auto known = rooms_.find(room_id);
    if (known != rooms_.end()) {
        by_age_.erase(known->second.age);
        known->second = {age, dp_rank};
        return;
    }
    rooms_.emplace(room_id, Entry{age, dp_rank});
    if (rooms_.size() > max_rooms_) {
        const auto oldest = by_age_.begin();
        rooms_.erase(oldest->second);
        by_age_.erase(oldest);
    }
}

std::optional<uint32_t> BootstrapRooms::find(uint64_t room_id) const {
    const auto known = rooms_.find(room_id);
    if (known == rooms_.end())
        return std::nullopt;
    return known->second.dp_rank;
}

} // namespace kvf
