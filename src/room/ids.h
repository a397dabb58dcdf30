// Names of rooms: the handle that callers hold, and the shard that owns a room id.
#pragma once

#include <cstdint>

namespace kvf {

// A room's handle: 32 bits of generation, 8 of the engine's tag, 24 of the slot.
struct RoomHandle {
    uint64_t value = 0;

    static RoomHandle make(uint32_t generation, uint8_t tag, uint32_t slot) {
        return {uint64_t{generation} << 32 | uint64_t{tag} << 24 | slot};
    }
    uint32_t slot() const { return static_cast<uint32_t>(value & 0xffffff); }
    uint8_t tag() const { return static_cast<uint8_t>(value >> 24); }
    uint32_t generation() const { return static_cast<uint32_t>(value >> 32); }
    bool operator==(const RoomHandle &) const = default;
};

constexpr uint32_t kMaxSlots = 1u << 24;

// Room ids are often counters, or share a residue: mixed, they spread (the finalizer of splitmix64).
constexpr uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

constexpr uint32_t shard_of(uint64_t room_id, uint32_t shards) {
    return static_cast<uint32_t>(((mix(room_id) >> 32) * shards) >> 32);
}

} // namespace kvf
