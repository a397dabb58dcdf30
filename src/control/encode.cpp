// Messages to frames.
#include "control/codec.h"

#include "wire_generated.h"

#include <algorithm>

namespace kvf {

namespace {

using flatbuffers::FlatBufferBuilder;
template <typename T>
using Offset = flatbuffers::Offset<T>;

constexpr size_t kKeptBuffer = 256u << 10; // a builder that has grown beyond is given back

Offset<flatbuffers::String> put_text(FlatBufferBuilder &builder, const std::string &text, size_t most) {
    return builder.CreateString(text.size() <= most ? text : clean_text(text, most));
}

Offset<flatbuffers::Vector<uint8_t>> put_bytes(FlatBufferBuilder &builder, const Bytes &bytes) {
    return bytes.empty() ? Offset<flatbuffers::Vector<uint8_t>>() : builder.CreateVector(bytes);
}

Offset<wire::Cause> put_cause(FlatBufferBuilder &builder, const Cause &cause) {
    return wire::CreateCause(builder, cause.code, cause.rank, put_text(builder, cause.sentence, kMostSentence));
}

wire::Place place(const RankOf &of) {
    return {of.rank, of.size};
}

Offset<wire::Tensor> put_tensor(FlatBufferBuilder &builder, const Tensor &tensor) {
    wire::TensorBuilder out(builder);
    out.add_group(tensor.name.group);
    out.add_layer(tensor.name.layer);
    out.add_part(tensor.name.part);
    out.add_dtype(tensor.dtype);
    out.add_rows(tensor.rows);
    out.add_axis_begin(tensor.axis_begin);
    out.add_axis_count(tensor.axis_count);
    out.add_axis_total(tensor.axis_total);
    out.add_unit_bytes(tensor.unit_bytes);
    out.add_page_bytes(tensor.page_bytes);
    out.add_page_count(tensor.page_count);
    out.add_page_stride(tensor.page_stride);
    out.add_region(tensor.region);
    out.add_region_offset(tensor.region_offset);
    return out.Finish();
}

Offset<wire::TransportKeys> put_keys(FlatBufferBuilder &builder, const TransportKeys &keys) {
    std::vector<Offset<wire::Blob>> blobs;
    blobs.reserve(keys.keys.size());
    for (const Bytes &key : keys.keys)
        blobs.push_back(wire::CreateBlob(builder, put_bytes(builder, key)));
    const auto name = put_text(builder, keys.name, kMostName);
    const auto address = put_bytes(builder, keys.address);
    return wire::CreateTransportKeys(builder, name, address, builder.CreateVector(blobs));
}

wire::Progress progress(RoomNews::Kind kind) {
    switch (kind) {
        case RoomNews::kSuccess:
            return wire::Progress::Success;
        case RoomNews::kFailed:
            return wire::Progress::Failed;
        default:
            return wire::Progress::Began;
    }
}

} // namespace

// A list takes its table, its vector's length and an entry in the vector of lists.
static_assert(kMostRuns * sizeof(wire::Run) + kMostGroups * 64 + 256 <= kFrameBound);

Status check_offer(const std::vector<PageRuns> &lists) {
    uint64_t pages = 0, runs = 0;
    for (const PageRuns &list : lists) {
        pages += list.pages();
        runs += list.runs().size();
    }
    if (lists.size() > kMostGroups)
        return fail(KVF_ERR_INVALID, "%zu lists; expected at most %zu", lists.size(), kMostGroups);
    if (pages > kMostPages)
        return fail(KVF_ERR_INVALID, "%llu pages in all lists; expected at most %llu",
                    static_cast<unsigned long long>(pages), static_cast<unsigned long long>(kMostPages));
    if (runs > kMostRuns)
        return fail(KVF_ERR_INVALID, "the pages of all lists are %llu runs of neighbours; expected at most %llu",
                    static_cast<unsigned long long>(runs), static_cast<unsigned long long>(kMostRuns));
    return {};
}

struct Encoder::Builder {
    FlatBufferBuilder flat{1024};
    std::vector<wire::Run> runs;

    // Empty, for the next message.
    FlatBufferBuilder &fresh() {
        if (flat.GetSize() > kKeptBuffer)
            flat.Reset();
        else
            flat.Clear();
        return flat;
    }
};

Encoder::Encoder() : builder_(std::make_unique<Builder>()) {}

Encoder::~Encoder() = default;

Status Encoder::finish(uint8_t type, uint32_t offset, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->flat;
    const auto message = static_cast<wire::Message>(type);
    flat.FinishSizePrefixed(wire::CreateFrame(flat, message, offset), wire::FrameIdentifier());
    *frame = {flat.GetBufferPointer(), flat.GetSize()};
    if (frame->size() > kFrameBound)
        return fail(KVF_ERR_UNSUPPORTED, "a %s message of %zu bytes; the most is %u", wire::EnumNameMessage(message),
                    frame->size(), kFrameBound);
    return {};
}

Status Encoder::encode(const HelloMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    const auto name = put_text(flat, message.name, kMostName);
    const auto proof = put_bytes(flat, message.proof);
    const wire::Place tp = place(message.tp), pp = place(message.pp), dp = place(message.dp);
    const auto hello =
        wire::CreateHello(flat, message.version_min, message.version_max, message.features, message.required_features,
                          message.instance, message.role, name, message.rank, &tp, &pp, &dp, proof, message.connection);
    return finish(static_cast<uint8_t>(wire::Message::Hello), hello.o, frame);
}

Status Encoder::encode(const LayoutMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    std::vector<Offset<wire::Tensor>> tensors;
    tensors.reserve(message.layout.tensors.size());
    for (const Tensor &tensor : message.layout.tensors)
        tensors.push_back(put_tensor(flat, tensor));
    std::vector<Offset<wire::Region>> regions;
    regions.reserve(message.regions.size());
    for (const RegionTold &region : message.regions)
        regions.push_back(wire::CreateRegion(flat, region.length, region.memory_kind));
    const auto tensors_at = flat.CreateVector(tensors);
    const auto regions_at = flat.CreateVector(regions);
    const auto layout = wire::CreateLayout(flat, message.layout.version, tensors_at, regions_at, message.compared);
    return finish(static_cast<uint8_t>(wire::Message::Layout), layout.o, frame);
}

Status Encoder::encode(const RegionsMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    std::vector<Offset<wire::TransportKeys>> transports;
    transports.reserve(message.transports.size());
    for (const TransportKeys &keys : message.transports)
        transports.push_back(put_keys(flat, keys));
    const auto regions = wire::CreateRegions(flat, message.layout_version, flat.CreateVector(transports));
    return finish(static_cast<uint8_t>(wire::Message::Regions), regions.o, frame);
}

Status Encoder::encode(const SelectMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    const auto name = put_text(flat, message.transport, kMostName);
    const auto select = wire::CreateSelect(flat, name, put_bytes(flat, message.blob));
    return finish(static_cast<uint8_t>(wire::Message::Select), select.o, frame);
}

Status Encoder::encode(const ReadyMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    std::vector<Offset<wire::Refusal>> refusals;
    for (const Refusal &refusal : message.refusals) {
        const auto name = put_text(flat, refusal.transport, kMostName);
        const auto sentence = put_text(flat, refusal.sentence, kMostSentence);
        refusals.push_back(wire::CreateRefusal(flat, name, refusal.code, sentence));
    }
    const auto refusals_at = flat.CreateVector(refusals);
    const auto ready = wire::CreateReady(flat, put_bytes(flat, message.blob), refusals_at);
    return finish(static_cast<uint8_t>(wire::Message::Ready), ready.o, frame);
}

Status Encoder::encode(const OfferMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    std::vector<wire::Run> &runs = builder_->runs;
    std::vector<Offset<wire::PageRuns>> groups;
    groups.reserve(message.lists.size());
    for (const PageRuns &list : message.lists) {
        runs.clear();
        for (const PageRuns::Run &run : list.runs())
            runs.emplace_back(run.first, run.count);
        const auto runs_at = flat.CreateVectorOfStructs(runs);
        groups.push_back(wire::CreatePageRuns(flat, list.group(), runs_at));
    }
    const auto groups_at = flat.CreateVector(groups);
    const auto offer = wire::CreateOffer(flat, message.room_id, message.receiver, message.prefix_tokens, groups_at);
    return finish(static_cast<uint8_t>(wire::Message::Offer), offer.o, frame);
}

Status Encoder::encode(const StatusMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    const RoomNews &news = message.news;
    Offset<wire::Cause> cause;
    if (news.kind == RoomNews::kFailed)
        cause = put_cause(flat, news.cause);
    const auto status = wire::CreateStatus(flat, message.room_id, message.receiver, progress(news.kind), news.drained,
                                           cause, news.bytes, news.segments);
    return finish(static_cast<uint8_t>(wire::Message::Status), status.o, frame);
}

Status Encoder::encode(const AbortMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    const auto cause = put_cause(flat, message.cause);
    const auto abort =
        wire::CreateAbort(flat, message.room_id, message.receiver, message.offered, cause, message.offered_on);
    return finish(static_cast<uint8_t>(wire::Message::Abort), abort.o, frame);
}

Status Encoder::encode(const DrainedMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    const auto drained = wire::CreateDrained(flat, message.room_id, message.receiver);
    return finish(static_cast<uint8_t>(wire::Message::Drained), drained.o, frame);
}

Status Encoder::encode(const HeartbeatMessage &message, std::span<const uint8_t> *frame) {
    const auto heartbeat = wire::CreateHeartbeat(builder_->fresh(), message.ask);
    return finish(static_cast<uint8_t>(wire::Message::Heartbeat), heartbeat.o, frame);
}

Status Encoder::encode(const ByeMessage &message, std::span<const uint8_t> *frame) {
    FlatBufferBuilder &flat = builder_->fresh();
    const auto cause = put_cause(flat, message.cause);
    return finish(static_cast<uint8_t>(wire::Message::Bye), wire::CreateBye(flat, message.later, cause).o, frame);
}

Status Encoder::encode(const WireMessage &message, std::span<const uint8_t> *frame) {
    return std::visit([&](const auto &it) { return encode(it, frame); }, message);
}

} // namespace kvf
