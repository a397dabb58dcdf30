// The fuzzer's bytes, taken apart from the front. Where they have ended everything is zero, and a target gives zero the
// plainest meaning.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvf::fuzz {

class Input {
  public:
    explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}

    bool empty() const { return bytes_.empty(); }

    uint8_t byte() {
        const std::span<const uint8_t> one = take(1);
        return one.empty() ? 0 : one[0];
    }

    // Less than bound.
    uint32_t below(uint32_t bound) { return byte() % bound; }

    // Small ones, of one byte, and those that make trouble; else eight bytes follow.
    uint64_t number() {
        constexpr std::array<uint64_t, 15> kHostile{UINT64_MAX,
                                                    UINT64_MAX - 1,
                                                    uint64_t{1} << 63,
                                                    (uint64_t{1} << 63) - 1,
                                                    uint64_t{1} << 32,
                                                    UINT32_MAX,
                                                    UINT32_MAX - 1,
                                                    uint64_t{1} << 31,
                                                    INT32_MAX,
                                                    65536,
                                                    65535,
                                                    4096,
                                                    1000,
                                                    256,
                                                    255};
        const uint8_t first = byte();
        if (first < kRaw - kHostile.size())
            return first;
        if (first < kRaw)
            return kHostile[first - (kRaw - kHostile.size())];
        uint64_t number = 0;
        for (const uint8_t digit : take(8))
            number = number << 8 | digit;
        return number;
    }

    // As many as there are, at most count.
    std::span<const uint8_t> take(size_t count) {
        const std::span<const uint8_t> out = bytes_.first(std::min(count, bytes_.size()));
        bytes_ = bytes_.subspan(out.size());
        return out;
    }
    std::span<const uint8_t> rest() { return take(bytes_.size()); }

    std::vector<uint8_t> bytes(size_t count) {
        const std::span<const uint8_t> out = take(count);
        return {out.begin(), out.end()};
    }
    std::string text(size_t count) {
        const std::span<const uint8_t> out = take(count);
        return {out.begin(), out.end()};
    }

    // A record of the input: a byte that says how long it is, and that many bytes.
    Input record() { return Input(take(byte())); }

  private:
    static constexpr uint8_t kRaw = 255;

    std::span<const uint8_t> bytes_;
};

} // namespace kvf::fuzz
