// Cutting frames: one that lies whole and aligned in the bytes given is handed out as it lies there; else it is put
// together in a buffer that grows with what has come, never with what was announced.
#include "control/frame_reader.h"

#include "control/wire_messages.h"

#include <algorithm>
#include <string_view>

namespace kvf {
namespace {

constexpr size_t kKeptCapacity = 64u << 10; // more is given back once the frame is done with

} // namespace

Status FrameReader::frame_size(const uint8_t *header, size_t *size) const {
    const uint32_t length =
        uint32_t{header[0]} | uint32_t{header[1]} << 8 | uint32_t{header[2]} << 16 | uint32_t{header[3]} << 24;
    // 16 bytes: no FlatBuffer with an identifier and a root is smaller.
    if (length < 16 || length > bound_ - kFrameHeader) {
        const std::string_view begin(reinterpret_cast<const char *>(header), kFrameHeader);
        if (begin == "HTTP")
            return fail(KVF_ERR_PROTOCOL,
                        "an HTTP response: it is no engine; a bootstrap server is named without tcp://");
        for (const std::string_view method : {"GET ", "PUT ", "POST", "HEAD"})
            if (begin == method)
                return fail(KVF_ERR_PROTOCOL,
                            "an HTTP request: this is an engine's control address; the bootstrap "
                            "server has another");
        return fail(KVF_ERR_PROTOCOL, "a frame of %u bytes; 16 to %u are allowed here", length, bound_ - kFrameHeader);
    }
    *size = size_t{length} + kFrameHeader;
    return {};
}

bool FrameReader::fill(std::span<const uint8_t> *bytes, size_t size) {
    const size_t take = std::min(size - kept_.size(), bytes->size());
    const size_t want = kept_.size() + take;
    if (want > kept_.capacity())
        kept_.reserve(std::min(std::max(want, 2 * kept_.capacity()), std::max(size, want)));
    kept_.insert(kept_.end(), bytes->begin(), bytes->begin() + static_cast<ptrdiff_t>(take));
    *bytes = bytes->subspan(take);
    return kept_.size() == size;
}

void FrameReader::drop_last() {
    if (!complete_)
        return;
    complete_ = false;
    if (kept_.capacity() > kKeptCapacity)
        kept_ = {};
    else
        kept_.clear();
}

Status FrameReader::next(std::span<const uint8_t> *bytes, std::span<const uint8_t> *frame) {
    drop_last();
    *frame = {};
    size_t size = 0;
    if (kept_.empty() && bytes->size() >= kFrameHeader) {
        if (Status status = frame_size(bytes->data(), &size); !status.ok())
            return status;
        if (bytes->size() >= size && reinterpret_cast<uintptr_t>(bytes->data()) % 8 == 0) {
            *frame = bytes->first(size);
            *bytes = bytes->subspan(size);
            return {};
        }
    }
    if (kept_.size() < kFrameHeader && !fill(bytes, kFrameHeader))
        return {};
    if (Status status = frame_size(kept_.data(), &size); !status.ok())
        return status;
    if (!fill(bytes, size))
        return {};
    complete_ = true;
    *frame = kept_;
    return {};
}

} // namespace kvf
