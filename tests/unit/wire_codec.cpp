// The codec: what is encoded comes back as it was, and nothing that a stranger sends does harm.
#include "control/codec.h"

#include "wire_generated.h"
#include "wire_samples.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace kvf {
namespace {

using test::sample_messages;
using test::sample_tensor;

// A frame at an aligned address, as FrameReader gives it.
std::vector<uint8_t> frame_of(const WireMessage &message) {
    Encoder encoder;
    std::span<const uint8_t> frame;
    const Status status = encoder.encode(message, &frame);
    EXPECT_TRUE(status.ok()) << status.sentence();
    return {frame.begin(), frame.end()};
}

WireMessage round_trip(const WireMessage &message) {
    const std::vector<uint8_t> frame = frame_of(message);
    WireMessage out;
    const Status status = decode(frame, &out);
    EXPECT_TRUE(status.ok()) << status.sentence();
    return out;
}

std::string refusal(const WireMessage &message) {
    WireMessage out;
    const Status status = decode(frame_of(message), &out);
    EXPECT_EQ(status.code(), KVF_ERR_PROTOCOL) << status.sentence();
    return status.sentence();
}

template <typename T>
T sample() {
    for (const WireMessage &message : sample_messages())
        if (const auto *it = std::get_if<T>(&message))
            return *it;
    ADD_FAILURE() << "no sample";
    return {};
}

TEST(WireCodec, every_message_encodes_again_as_it_was) {
    for (const WireMessage &message : sample_messages()) {
        const WireMessage back = round_trip(message);
        EXPECT_EQ(back.index(), message.index());
        EXPECT_EQ(frame_of(back), frame_of(message)) << kMessageNames[message.index()];
    }
}

TEST(WireCodec, a_frame_begins_with_its_length) {
    const std::vector<uint8_t> frame = frame_of(HeartbeatMessage{true});
    uint32_t length = 0;
    std::memcpy(&length, frame.data(), sizeof length);
    EXPECT_EQ(length + kFrameHeader, frame.size());
    EXPECT_EQ(std::memcmp(frame.data() + 8, "KVFW", 4), 0);
}

TEST(WireCodec, hello_keeps_every_field) {
    const auto hello = std::get<HelloMessage>(round_trip(sample<HelloMessage>()));
    EXPECT_EQ(hello.instance, 0x1122334455667788u);
    EXPECT_EQ(hello.role, uint32_t{KVF_ROLE_PREFILL});
    EXPECT_EQ(hello.name, "prefill-0");
    EXPECT_EQ(hello.rank, 3u);
    EXPECT_EQ(hello.tp, (RankOf{1, 2}));
    EXPECT_EQ(hello.dp, (RankOf{5, 6}));
    EXPECT_EQ(hello.proof, (Bytes{1, 2, 3}));
    EXPECT_EQ(hello.connection, 99u);
}

TEST(WireCodec, abort_keeps_every_field) {
    const auto abort = std::get<AbortMessage>(round_trip(sample<AbortMessage>()));
    EXPECT_EQ(abort.room_id, 77u);
    EXPECT_EQ(abort.receiver, 3u);
    EXPECT_TRUE(abort.offered);
    EXPECT_EQ(abort.cause.sentence, "enough");
    EXPECT_EQ(abort.offered_on, 98u);
}

TEST(WireCodec, an_abort_of_no_offer_names_no_connection) {
    auto abort = sample<AbortMessage>();
    abort.offered = false;
    EXPECT_NE(refusal(abort).find("an offer that was not made"), std::string::npos);
}

TEST(WireCodec, layout_keeps_every_field_of_a_tensor) {
    const auto layout = std::get<LayoutMessage>(round_trip(sample<LayoutMessage>()));
    ASSERT_EQ(layout.layout.tensors.size(), 2u);
    const Tensor &tensor = layout.layout.tensors[1];
    const Tensor expected = sample_tensor(1);
    EXPECT_EQ(tensor.name, expected.name);
    EXPECT_EQ(tensor.dtype, expected.dtype);
    EXPECT_EQ(tensor.page_count, expected.page_count);
    EXPECT_EQ(tensor.page_stride, expected.page_stride);
    EXPECT_EQ(tensor.axis_begin, expected.axis_begin);
    EXPECT_EQ(tensor.unit_bytes, expected.unit_bytes);
    EXPECT_EQ(tensor.region_offset, expected.region_offset);
    EXPECT_EQ(layout.regions[1].length, 4096u);
    EXPECT_EQ(layout.compared, 9u);
}

TEST(WireCodec, pages_travel_as_runs_and_come_back_in_order) {
    const auto offer = std::get<OfferMessage>(round_trip(sample<OfferMessage>()));
    ASSERT_EQ(offer.lists.size(), 2u);
    EXPECT_EQ(offer.lists[0].expand().pages, (std::vector<uint32_t>{5, 6, 7, 1, 0, UINT32_MAX}));
    EXPECT_EQ(offer.lists[0].highest(), UINT32_MAX);
    EXPECT_EQ(offer.lists[1].pages(), 0u);

    OfferMessage long_one;
    long_one.lists.resize(1);
    long_one.lists[0].append(7, 100'000);
    EXPECT_LT(frame_of(long_one).size(), 200u);
    EXPECT_EQ(std::get<OfferMessage>(round_trip(long_one)).lists[0], long_one.lists[0]);
}

TEST(WireCodec, a_run_of_all_pages_there_may_be_takes_no_more_memory_than_a_short_one) {
    OfferMessage offer;
    offer.lists.resize(1);
    offer.lists[0].append(0, static_cast<uint32_t>(kMostPages));
    const auto read = std::get<OfferMessage>(round_trip(offer));
    EXPECT_EQ(read.lists[0].pages(), kMostPages);
    EXPECT_LE(read.lists[0].bytes(), 64u);
}

// 256 groups that all point at one vector of runs.
TEST(WireCodec, runs_that_groups_share_are_refused) {
    flatbuffers::FlatBufferBuilder flat;
    const std::vector<wire::Run> runs(1000, wire::Run(7, 1));
    const auto shared = flat.CreateVectorOfStructs(runs);
    std::vector<flatbuffers::Offset<wire::PageRuns>> groups;
    for (uint32_t group = 0; group < kMostGroups; ++group)
        groups.push_back(wire::CreatePageRuns(flat, group, shared));
    const auto offer = wire::CreateOffer(flat, 1, 1, 0, flat.CreateVector(groups));
    flat.FinishSizePrefixed(wire::CreateFrame(flat, wire::Message::Offer, offer.Union()), wire::FrameIdentifier());
    WireMessage out;
    const Status status = decode({flat.GetBufferPointer(), flat.GetSize()}, &out);
    EXPECT_EQ(status.code(), KVF_ERR_PROTOCOL);
    EXPECT_NE(status.sentence().find("runs that are another's"), std::string::npos) << status.sentence();
}

TEST(WireCodec, an_offer_of_as_many_runs_as_may_be_accepted_can_be_encoded) {
    OfferMessage offer;
    for (uint32_t group = 0; group < kMostGroups; ++group) {
        PageRuns &list = offer.lists.emplace_back(group, std::vector<uint32_t>{});
        for (uint32_t run = 0; run < (group == 0 ? kMostRuns - kMostGroups + 1 : 1); ++run)
            list.append(2 * run, 1);
    }
    EXPECT_TRUE(check_offer(offer.lists).ok());
    Encoder encoder;
    std::span<const uint8_t> frame;
    EXPECT_TRUE(encoder.encode(offer, &frame).ok());

    offer.lists[0].append(UINT32_MAX, 1);
    EXPECT_EQ(check_offer(offer.lists).sentence(),
              "the pages of all lists are 2000001 runs of neighbours; expected at most 2000000");
    offer.lists.assign(kMostGroups + 1, PageRuns());
    EXPECT_EQ(check_offer(offer.lists).sentence(), "257 lists; expected at most 256");
    offer.lists.assign(1, PageRuns());
    offer.lists[0].append(0, static_cast<uint32_t>(kMostPages) + 1);
    EXPECT_EQ(check_offer(offer.lists).sentence(), "16777217 pages in all lists; expected at most 16777216");
}

TEST(WireCodec, an_offer_of_too_many_pages_is_refused) {
    OfferMessage offer;
    offer.lists.resize(2);
    offer.lists[0].append(0, static_cast<uint32_t>(kMostPages / 2));
    offer.lists[1] = PageRuns(1, {});
    offer.lists[1].append(0, static_cast<uint32_t>(kMostPages / 2));
    WireMessage out;
    EXPECT_TRUE(decode(frame_of(offer), &out).ok());
    offer.lists[1].append(UINT32_MAX, 1);
    EXPECT_NE(refusal(offer).find("more than 16777216 pages"), std::string::npos);
}

TEST(WireCodec, a_message_that_does_not_fit_is_not_encoded) {
    OfferMessage offer;
    offer.lists.resize(1);
    for (uint32_t page = 0; page < (kFrameBound / 4); ++page)
        offer.lists[0].append(2 * page, 1);
    Encoder encoder;
    std::span<const uint8_t> frame;
    EXPECT_EQ(encoder.encode(offer, &frame).code(), KVF_ERR_UNSUPPORTED);
    EXPECT_TRUE(encoder.encode(HeartbeatMessage{}, &frame).ok());
}

TEST(WireCodec, a_hello_out_of_range_is_refused) {
    auto hello = sample<HelloMessage>();
    hello.instance = 0;
    EXPECT_EQ(refusal(hello), "malformed HELLO: instance 0");
    hello = sample<HelloMessage>();
    hello.role = 4;
    EXPECT_EQ(refusal(hello), "malformed HELLO: role 4");
    hello = sample<HelloMessage>();
    hello.version_min = 3;
    EXPECT_EQ(refusal(hello), "malformed HELLO: wire versions 3 to 1");
    hello = sample<HelloMessage>();
    hello.pp = {4, 4};
    EXPECT_EQ(refusal(hello), "malformed HELLO: a rank that is not below its size");
    hello = sample<HelloMessage>();
    hello.proof.resize(kMostProof + 1);
    EXPECT_NE(refusal(hello).find("too long"), std::string::npos);
}

TEST(WireCodec, a_layout_that_lies_about_its_memory_is_refused) {
    const auto with = [](auto change) {
        auto layout = sample<LayoutMessage>();
        change(&layout);
        return refusal(layout);
    };
    const std::string outside = "malformed LAYOUT: tensor (group 0, layer 1, part 0) does not lie within its region";
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].region = 2; }), outside);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].region = 1; }), outside);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].region_offset = UINT64_MAX; }), outside);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].page_count = 0; }), outside);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].page_count = kMostPageCount + 1; }), outside);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].page_stride = uint64_t{1} << 60; }), outside);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].page_stride = 1; }), outside);
    const std::string shape =
        "malformed LAYOUT: tensor (group 0, layer 1, part 0) has a shape that is empty or not that of its page_bytes";
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].rows = uint64_t{1} << 60; }), shape);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].axis_count = 0; }), shape);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].axis_begin = 5; }), shape);
    EXPECT_EQ(with([](LayoutMessage *it) { it->layout.tensors[1].page_bytes = 0; }), shape);
    EXPECT_NE(with([](LayoutMessage *it) { std::swap(it->layout.tensors[0], it->layout.tensors[1]); }).find("order"),
              std::string::npos);
    EXPECT_NE(with([](LayoutMessage *it) { it->layout.tensors[1] = it->layout.tensors[0]; }).find("twice"),
              std::string::npos);
    EXPECT_NE(with([](LayoutMessage *it) { it->layout.version = 0; }).find("version 0"), std::string::npos);
    EXPECT_NE(with([](LayoutMessage *it) { it->layout.tensors.clear(); }).find("0 tensors"), std::string::npos);
    EXPECT_NE(with([](LayoutMessage *it) { it->regions[1].length = 0; }).find("no bytes"), std::string::npos);
}

TEST(WireCodec, regions_and_ready_are_checked) {
    auto regions = sample<RegionsMessage>();
    regions.transports[1].name = "shm";
    EXPECT_NE(refusal(regions).find("there twice"), std::string::npos);
    regions.transports[1].name = "";
    EXPECT_NE(refusal(regions).find("without a name"), std::string::npos);
    auto ready = sample<ReadyMessage>();
    ready.refusals[0].code = 0;
    EXPECT_NE(refusal(ready).find("code 0"), std::string::npos);
}

TEST(WireCodec, a_cause_needs_a_code_that_is_one) {
    auto abort = sample<AbortMessage>();
    abort.cause.code = 0;
    EXPECT_NE(refusal(abort).find("code 0"), std::string::npos);
    abort.cause.code = 7;
    EXPECT_NE(refusal(abort).find("code 7"), std::string::npos);
    abort = sample<AbortMessage>();
    abort.cause.rank = -2;
    EXPECT_NE(refusal(abort).find("rank -2"), std::string::npos);
    // One of a newer library: the sentence says what it is.
    abort = sample<AbortMessage>();
    abort.cause.code = -999;
    EXPECT_EQ(std::get<AbortMessage>(round_trip(abort)).cause.code, KVF_ERR_PEER_ABORTED);
    ByeMessage bye{true, {KVF_OK, 0, ""}};
    EXPECT_TRUE(std::get<ByeMessage>(round_trip(bye)).later);
    bye.later = false;
    EXPECT_NE(refusal(bye).find("code 0"), std::string::npos);
}

TEST(WireCodec, news_of_each_kind_come_back) {
    for (const RoomNews::Kind kind : {RoomNews::kBegan, RoomNews::kSuccess}) {
        StatusMessage status{1, 2, {}};
        status.news.kind = kind;
        status.news.bytes = 1;
        const auto back = std::get<StatusMessage>(round_trip(status));
        EXPECT_EQ(back.news.kind, kind);
        EXPECT_EQ(back.news.cause.code, KVF_OK);
        EXPECT_EQ(back.news.bytes, 1u);
    }
}

TEST(WireCodec, sentences_are_cut_and_cleaned) {
    auto abort = sample<AbortMessage>();
    abort.cause.sentence = std::string(3000, 'x');
    EXPECT_EQ(std::get<AbortMessage>(round_trip(abort)).cause.sentence.size(), kMostSentence);
    abort.cause.sentence = "a\nb\x1b[31m\xff z";
    EXPECT_EQ(std::get<AbortMessage>(round_trip(abort)).cause.sentence, "a?b?[31m? z");
}

TEST(CleanText, keeps_utf8_and_cuts_between_characters) {
    EXPECT_EQ(clean_text("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\xa2", 100), "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\xa2");
    EXPECT_EQ(clean_text("ab\xe2\x82\xac", 4), "ab");
    EXPECT_EQ(clean_text("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82", 100), "?? ??? ???? ??");
    EXPECT_EQ(clean_text("", 4), "");
}

// What a stranger may send: none of it may crash (the sanitizers look on) and what is taken obeys the limits.
class Mutated : public testing::TestWithParam<uint64_t> {};

TEST_P(Mutated, frames_never_do_harm) {
    std::mt19937_64 random(GetParam());
    const std::vector<WireMessage> samples = sample_messages();
    for (int round = 0; round < 500; ++round) {
        std::vector<uint8_t> frame = frame_of(samples[random() % samples.size()]);
        const uint64_t flips = 1 + random() % 8;
        for (uint64_t i = 0; i < flips; ++i)
            frame[random() % frame.size()] ^= static_cast<uint8_t>(1u << (random() % 8));
        if (random() % 4 == 0)
            frame.resize(random() % frame.size());
        if (random() % 2 == 0 && frame.size() >= kFrameHeader) { // a length that fits, to get further
            const auto length = static_cast<uint32_t>(frame.size() - kFrameHeader);
            std::memcpy(frame.data(), &length, sizeof length);
        }
        WireMessage out;
        const Status status = decode(frame, &out);
        if (!status.ok()) {
            EXPECT_FALSE(status.sentence().empty());
            continue;
        }
        if (const auto *offer = std::get_if<OfferMessage>(&out)) {
            for (const PageRuns &list : offer->lists)
                EXPECT_LE(list.pages(), kMostPages);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Mutated, testing::Range<uint64_t>(1, 9));

TEST(WireCodec, noise_is_refused) {
    std::mt19937_64 random(99);
    for (int round = 0; round < 2000; ++round) {
        std::vector<uint8_t> frame(random() % 300);
        for (uint8_t &byte : frame)
            byte = static_cast<uint8_t>(random());
        WireMessage out;
        EXPECT_EQ(decode(frame, &out).code(), KVF_ERR_PROTOCOL);
    }
}

} // namespace
} // namespace kvf
