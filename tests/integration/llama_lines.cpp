// The lines between the router and the engines.
#include "lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "report.h"

namespace llama {
namespace {

TEST(Lines, come_whole_however_they_were_cut) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    LineReader reader(ends[0]);
    std::string line;
    std::vector<std::string> lines;
    for (const char *piece : {"ro", "om 1\n\nend", "\nhalf"}) {
        ASSERT_GT(write(ends[1], piece, std::char_traits<char>::length(piece)), 0);
        ASSERT_TRUE(reader.read_some());
        while (reader.next(line))
            lines.push_back(line);
    }
    close(ends[1]);
    EXPECT_FALSE(reader.read_some());
    EXPECT_FALSE(reader.next(line));
    EXPECT_EQ(lines, (std::vector<std::string>{"room 1", "", "end"}));
    close(ends[0]);
}

TEST(Lines, a_word_that_is_no_number_or_does_not_fit_is_refused_with_its_line) {
    Words words("room 12 x 4294967296");
    EXPECT_EQ(words.word(), "room");
    EXPECT_EQ(words.number<uint64_t>(), 12U);
    EXPECT_THROW(words.number<uint32_t>(), Failure);
    EXPECT_THROW(words.number<uint32_t>(), Failure);
    try {
        words.number<int32_t>();
        FAIL();
    } catch (const Failure &failure) {
        EXPECT_STREQ(failure.what(), "a word is missing at the end of the line \"room 12 x 4294967296\"");
    }
}

TEST(Lines, a_report_arrives_as_it_was_told) {
    const Report report = {9, 0, -45, 4096, 3, 10, 20, 40, 50, 60, 70, 80, "shm", "aborted by the peer:\nno pages"};
    const std::string line = report_line(report);
    Words of_line(line);
    EXPECT_EQ(of_line.word(), "report");
    const Report back = parse_report(of_line);
    EXPECT_EQ(back.room_id, 9U);
    EXPECT_EQ(back.state, 0U);
    EXPECT_EQ(back.code, -45);
    EXPECT_EQ(back.bytes, 4096U);
    EXPECT_EQ(back.segments, 3U);
    EXPECT_EQ(back.ended_ns, 60U);
    EXPECT_EQ(back.last_chunk_ns, 70U);
    EXPECT_EQ(back.last_chunk_bytes, 80U);
    EXPECT_EQ(back.transport, "shm");
    EXPECT_EQ(back.message, "aborted by the peer: no pages");
}

TEST(Lines, a_report_of_a_room_without_transport_or_message_arrives) {
    const std::string line = report_line({});
    Words words(line);
    words.word();
    const Report back = parse_report(words);
    EXPECT_EQ(back.transport, "-");
    EXPECT_EQ(back.message, "");
}

} // namespace
} // namespace llama
