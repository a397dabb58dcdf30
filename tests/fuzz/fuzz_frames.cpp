// A stream of strangers' bytes, however it is cut, to frames, and those to messages. The first byte chooses the bound
// of a frame, the second the pieces; the stream follows.
#include "control/codec.h"
#include "control/frame_reader.h"
#include "holds.h"
#include "input.h"

#include <random>

namespace {

using namespace kvf;
using fuzz::holds;
using fuzz::Input;

struct Read {
    std::vector<Bytes> frames;
    bool failed = false;
    bool operator==(const Read &) const = default;
};

void feed(FrameReader *reader, std::span<const uint8_t> piece, Read *out) {
    while (!out->failed) {
        std::span<const uint8_t> frame;
        out->failed = !reader->next(&piece, &frame).ok();
        if (frame.empty()) {
            holds(out->failed || piece.empty(), "a reader that wants more has taken what there was");
            return;
        }
        holds(reinterpret_cast<uintptr_t>(frame.data()) % 8 == 0, "frames are aligned");
        out->frames.emplace_back(frame.begin(), frame.end());
    }
}

Read read(std::span<const uint8_t> stream, uint32_t bound, uint8_t cuts) {
    std::minstd_rand random(cuts);
    FrameReader reader(bound);
    Read out;
    while (!stream.empty() && !out.failed) {
        const size_t size = cuts == 0 ? stream.size() : std::min<size_t>(1 + random() % cuts, stream.size());
        // A buffer of its own, at any alignment, that ends with the piece.
        const size_t shift = cuts == 0 ? 0 : random() % 8;
        Bytes piece(shift + size);
        std::copy_n(stream.begin(), size, piece.begin() + static_cast<ptrdiff_t>(shift));
        feed(&reader, std::span(piece).subspan(shift), &out);
        holds(reader.buffered() <= bound, "no more is kept than a frame may have");
        stream = stream.subspan(size);
    }
    return out;
}

// What decode() gave can be sent again, and is then what it was.
void check_frame(const Bytes &bytes) {
    WireMessage message;
    if (!decode(bytes, &message).ok())
        return;
    Encoder encoder;
    std::span<const uint8_t> frame;
    if (!encoder.encode(message, &frame).ok())
        return; // it may be of another shape here, and too long
    const Bytes first(frame.begin(), frame.end());
    WireMessage again;
    holds(decode(first, &again), "what this library writes it can read");
    holds(again.index() == message.index(), "a message stays of its kind");
    holds(encoder.encode(again, &frame), "what was written once can be written again");
    holds(std::equal(frame.begin(), frame.end(), first.begin(), first.end()), "a message read back is the same");
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    kvf::fuzz::quiet();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input({data, size});
    const uint32_t bound = input.below(2) == 0 ? kFirstFrameBound : kFrameBound;
    const uint8_t cuts = input.byte();
    const std::span<const uint8_t> stream = input.rest();
    const Read whole = read(stream, bound, 0);
    holds(read(stream, bound, cuts) == whole, "frames do not depend on how the stream was cut");
    for (const Bytes &frame : whole.frames)
        check_frame(frame);
    return 0;
}
