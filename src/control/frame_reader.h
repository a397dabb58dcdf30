// Cuts a stream of bytes into frames. Sans I/O: bytes come from whoever read them.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvf {

class FrameReader {
  public:
    explicit FrameReader(uint32_t bound) : bound_(bound) {}

    // The most bytes of a frame with its header, from the next frame on.
    void set_bound(uint32_t bound) { bound_ = bound; }

    // Takes the next frame from the front of *bytes. *frame, header and all and aligned to 8 bytes, stands until the
    // next call and as long as the bytes do; it is empty when they ended first (what there was is kept for the next
    // call). KVF_ERR_PROTOCOL: a length out of bounds; the stream is of no use any more.
    Status next(std::span<const uint8_t> *bytes, std::span<const uint8_t> *frame);

    size_t buffered() const { return kept_.size(); }

  private:
    // Moves bytes to kept_ until it has `size`; false when they ended first.
    bool fill(std::span<const uint8_t> *bytes, size_t size);
    // KVF_ERR_PROTOCOL, or the whole frame's size.
    Status frame_size(const uint8_t *header, size_t *size) const;
    void drop_last();

    uint32_t bound_;
    bool complete_ = false;     // kept_ is the frame that was given out last
    std::vector<uint8_t> kept_; // of operator new, and so aligned to 8
};

} // namespace kvf
