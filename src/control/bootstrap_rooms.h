// Which dp rank prefills a room, as the bootstrap server was told, for the latest rooms.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace kvf {

class BootstrapRooms {
  public:
    explicit BootstrapRooms(uint32_t max_rooms);

    // A room that is told again is as new.
    void put(uint64_t room_id, uint32_t dp_rank);

    std::optional<uint32_t> find(uint64_t room_id) const;

  private:
    struct Entry {
        uint64_t age = 0; // key in by_age_
        uint32_t dp_rank = 0;
    };

    uint32_t max_rooms_;
    uint64_t next_age_ = 0;
    // Ordered maps: room ids come from strangers, who could choose them to collide in a hash table.
    std::map<uint64_t, Entry> rooms_;
    std::map<uint64_t, uint64_t> by_age_; // age to room id
};

} // namespace kvf
