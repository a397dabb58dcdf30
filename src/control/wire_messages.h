// The messages of the wire as plain values, with the limits that wire.fbs puts on them. What decode() gave has passed
// its checks: lists are sorted where they must be, numbers are in range, text is clean UTF-8.
#pragma once

#include "room/messages.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace kvf {

constexpr uint16_t kWireVersion = 1;

constexpr uint32_t kFrameHeader = 4;             // bytes in front of a frame that say how many follow
constexpr uint32_t kFirstFrameBound = 64u << 10; // bytes of a frame with its header, before HELLO has come
constexpr uint32_t kFrameBound = 16u << 20;      // and after
constexpr size_t kMostName = 128;                // bytes
constexpr size_t kMostSentence = 1024;           // bytes; longer ones are cut as they are sent
constexpr size_t kMostProof = 1024;              // bytes
constexpr size_t kMostBlob = size_t{1} << 20;    // bytes of an address, key or export
constexpr size_t kMostTensors = 65536;           // so are regions
constexpr size_t kMostTransports = 64;
constexpr size_t kMostGroups = 256;                // of an offer
constexpr uint64_t kMostPages = uint64_t{1} << 24; // of an offer
constexpr uint64_t kMostRuns = 2'000'000;          // of neighbouring pages in an offer, as it is sent
constexpr uint64_t kMostPageCount = uint64_t{1} << 32;

using Bytes = std::vector<uint8_t>;

struct RankOf {
    uint32_t rank = 0, size = 1;
    bool operator==(const RankOf &) const = default;
};

struct HelloMessage {
    uint16_t version_min = kWireVersion, version_max = kWireVersion;
    uint64_t features = 0, required_features = 0;
    uint64_t instance = 0;
    uint32_t role = 0;
    std::string name;
    uint32_t rank = 0;
    RankOf tp, pp, dp;
    Bytes proof;
    uint64_t connection = 0;
};

struct RegionTold {
    uint64_t length = 0;
    uint32_t memory_kind = 0;
};

struct LayoutMessage {
    Layout layout; // without regions
    std::vector<RegionTold> regions;
    uint64_t compared = 0; // version of the dialer's layout; from the acceptor in the handshake
};

struct TransportKeys {
    std::string name;
    Bytes address;
    std::vector<Bytes> keys; // by region; empty: the region is not registered with it
};

struct RegionsMessage {
    uint64_t layout_version = 0;
    std::vector<TransportKeys> transports;
};

struct SelectMessage {
    std::string transport;
    Bytes blob;
};

struct Refusal {
    std::string transport; // "": all
    int code = 0;
    std::string sentence;
};

struct ReadyMessage {
    Bytes blob;
    std::vector<Refusal> refusals;
};

struct OfferMessage {
    uint64_t room_id = 0, receiver = 0, prefix_tokens = 0;
    std::vector<PageRuns> lists;
};

struct StatusMessage {
    uint64_t room_id = 0, receiver = 0;
    RoomNews news;
};

struct AbortMessage {
    uint64_t room_id = 0, receiver = 0;
    bool offered = false;
    Cause cause;
    uint64_t offered_on = 0;
};

struct DrainedMessage {
    uint64_t room_id = 0, receiver = 0;
};

struct HeartbeatMessage {
    bool ask = false;
};

struct ByeMessage {
    bool later = false;
    Cause cause; // a code of KVF_OK with later
};

using WireMessage = std::variant<HelloMessage, LayoutMessage, RegionsMessage, SelectMessage, ReadyMessage, OfferMessage,
                                 StatusMessage, AbortMessage, DrainedMessage, HeartbeatMessage, ByeMessage>;

// "HELLO", by WireMessage's index.
constexpr std::array<const char *, std::variant_size_v<WireMessage>> kMessageNames{
    "HELLO", "LAYOUT", "REGIONS", "SELECT", "READY", "OFFER", "STATUS", "ABORT", "DRAINED", "HEARTBEAT", "BYE"};

} // namespace kvf
