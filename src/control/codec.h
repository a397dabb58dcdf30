// Messages to frames and back. Frames of strangers: decode() verifies the buffer's structure before it looks at it and
// every value before it gives it out.
#pragma once

#include "base/status.h"
#include "control/wire_messages.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kvf {

// Whether a room's pages fit into one OFFER, which no peer refuses for its size. KVF_ERR_INVALID.
Status check_offer(const std::vector<PageRuns> &lists);

// Makes frames, in one buffer that is used again.
class Encoder {
  public:
    Encoder();
    ~Encoder();
    Encoder(const Encoder &) = delete;
    Encoder &operator=(const Encoder &) = delete;

    // *frame, header and all, stands until the next call. Sentences and names that are too long are cut.
    // KVF_ERR_UNSUPPORTED: the message does not fit into a frame.
    Status encode(const HelloMessage &message, std::span<const uint8_t> *frame);
    Status encode(const LayoutMessage &message, std::span<const uint8_t> *frame);
    Status encode(const RegionsMessage &message, std::span<const uint8_t> *frame);
    Status encode(const SelectMessage &message, std::span<const uint8_t> *frame);
    Status encode(const ReadyMessage &message, std::span<const uint8_t> *frame);
    Status encode(const OfferMessage &message, std::span<const uint8_t> *frame);
    Status encode(const StatusMessage &message, std::span<const uint8_t> *frame);
    Status encode(const AbortMessage &message, std::span<const uint8_t> *frame);
    Status encode(const DrainedMessage &message, std::span<const uint8_t> *frame);
    Status encode(const HeartbeatMessage &message, std::span<const uint8_t> *frame);
    Status encode(const ByeMessage &message, std::span<const uint8_t> *frame);
    Status encode(const WireMessage &message, std::span<const uint8_t> *frame);

  private:
    struct Builder;
    Status finish(uint8_t type, uint32_t offset, std::span<const uint8_t> *frame);

    std::unique_ptr<Builder> builder_;
};

// frame: one frame with its header, at an address that is a multiple of 8. KVF_ERR_PROTOCOL says what is wrong with it;
// *message is then of no meaning.
Status decode(std::span<const uint8_t> frame, WireMessage *message);

// text made fit to be shown: control characters and what is not UTF-8 replaced by '?', cut to `most` bytes between two
// characters.
std::string clean_text(std::string_view text, size_t most);

} // namespace kvf
