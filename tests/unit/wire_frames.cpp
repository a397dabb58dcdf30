// Cutting a stream into frames, however it is chopped.
#include "control/codec.h"
#include "control/frame_reader.h"

#include "wire_samples.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace kvf {
namespace {

std::vector<uint8_t> stream_of(const std::vector<WireMessage> &messages) {
    Encoder encoder;
    std::vector<uint8_t> out;
    for (const WireMessage &message : messages) {
        std::span<const uint8_t> frame;
        EXPECT_TRUE(encoder.encode(message, &frame).ok());
        out.insert(out.end(), frame.begin(), frame.end());
    }
    return out;
}

// The kinds of the messages in the bytes.
std::vector<size_t> feed(FrameReader *reader, std::span<const uint8_t> bytes) {
    std::vector<size_t> out;
    for (;;) {
        std::span<const uint8_t> frame;
        const Status status = reader->next(&bytes, &frame);
        EXPECT_TRUE(status.ok()) << status.sentence();
        if (!status.ok() || frame.empty())
            return out;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(frame.data()) % 8, 0u);
        WireMessage message;
        EXPECT_TRUE(decode(frame, &message).ok());
        out.push_back(message.index());
    }
}

TEST(FrameReader, gives_every_frame_however_the_stream_is_cut) {
    const std::vector<WireMessage> messages = test::sample_messages();
    const std::vector<uint8_t> stream = stream_of(messages);
    std::vector<size_t> expected;
    for (const WireMessage &message : messages)
        expected.push_back(message.index());
    std::mt19937_64 random(5);
    for (size_t most : {size_t{1}, size_t{3}, size_t{4}, size_t{7}, size_t{64}, size_t{300}, stream.size()}) {
        FrameReader reader(kFrameBound);
        std::vector<size_t> got;
        for (size_t at = 0; at < stream.size();) {
            const size_t size = std::min(1 + random() % most, stream.size() - at);
            // At any alignment, as a socket's buffer has it.
            std::vector<uint8_t> piece(size + 8);
            const size_t shift = random() % 8;
            std::copy_n(stream.begin() + static_cast<ptrdiff_t>(at), size,
                        piece.begin() + static_cast<ptrdiff_t>(shift));
            for (const size_t kind : feed(&reader, std::span(piece).subspan(shift, size)))
                got.push_back(kind);
            at += size;
        }
        EXPECT_EQ(got, expected) << "pieces of up to " << most;
    }
}

TEST(FrameReader, a_length_beyond_the_bound_is_refused_at_once) {
    FrameReader reader(kFirstFrameBound);
    std::vector<uint8_t> bytes{0, 0, 1, 0}; // 64 KiB, and a header with it
    std::span<const uint8_t> rest = bytes, frame;
    const Status status = reader.next(&rest, &frame);
    EXPECT_EQ(status.code(), KVF_ERR_PROTOCOL);
    EXPECT_EQ(status.sentence(), "a frame of 65536 bytes; 16 to 65532 are allowed here");
    reader.set_bound(kFrameBound);
    rest = bytes;
    EXPECT_TRUE(reader.next(&rest, &frame).ok());
    EXPECT_TRUE(frame.empty());
}

TEST(FrameReader, http_is_called_by_its_name) {
    const std::pair<const char *, const char *> cases[] = {{"GET /health HTTP/1.1\r\n", "an HTTP request"},
                                                           {"PUT /route HTTP/1.1\r\n", "an HTTP request"},
                                                           {"POST /query HTTP/1.1\r\n", "an HTTP request"},
                                                           {"HEAD / HTTP/1.1\r\n\r\n", "an HTTP request"},
                                                           {"HTTP/1.1 400 Bad Request", "an HTTP response"}};
    for (const auto &[sent, called] : cases) {
        FrameReader reader(kFrameBound);
        std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t *>(sent), strlen(sent));
        std::span<const uint8_t> frame;
        const Status status = reader.next(&bytes, &frame);
        EXPECT_EQ(status.code(), KVF_ERR_PROTOCOL);
        EXPECT_TRUE(status.sentence().starts_with(called)) << status.sentence();
    }
}

TEST(FrameReader, a_length_of_nothing_is_refused) {
    FrameReader reader(kFrameBound);
    std::vector<uint8_t> bytes{0, 0, 0, 0, 1};
    std::span<const uint8_t> rest = bytes, frame;
    EXPECT_EQ(reader.next(&rest, &frame).code(), KVF_ERR_PROTOCOL);
}

TEST(FrameReader, keeps_what_came_and_not_what_was_announced) {
    FrameReader reader(kFrameBound);
    std::vector<uint8_t> bytes{0, 0, 255, 0, 1, 2, 3, 4}; // almost 16 MiB are to come
    std::span<const uint8_t> rest = bytes, frame;
    EXPECT_TRUE(reader.next(&rest, &frame).ok());
    EXPECT_TRUE(frame.empty());
    EXPECT_EQ(reader.buffered(), bytes.size());
}

} // namespace
} // namespace kvf
