// Frames to messages, with every check that wire.fbs asks for.
#include "control/codec.h"

#include "base/status_text.h"
#include "wire_generated.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace kvf {
namespace {

constexpr flatbuffers::uoffset_t kMostDepth = 8;
constexpr flatbuffers::uoffset_t kMostTables = 1'000'000;

using Vector = flatbuffers::Vector<uint8_t>;

Status bad(const std::string &what) {
    return {KVF_ERR_PROTOCOL, what};
}

// Offsets of a buffer may lead to one place many times over, so what is copied out is bounded by the frame's size.
class Budget {
  public:
    explicit Budget(size_t bytes) : left_(bytes) {}

    bool take(const Vector *from, size_t most, Bytes *out) {
        out->clear();
        if (from == nullptr)
            return true;
        if (from->size() > most || from->size() > left_)
            return false;
        left_ -= from->size();
        out->assign(from->begin(), from->end());
        return true;
    }

    bool take(const flatbuffers::String *from, size_t most, std::string *out) {
        out->clear();
        if (from == nullptr)
            return true;
        if (from->size() > most || from->size() > left_)
            return false;
        left_ -= from->size();
        *out = clean_text({from->c_str(), from->size()}, most);
        return true;
    }

    // Bytes of the frame that are copied otherwise.
    bool take(size_t bytes) {
        if (bytes > left_)
            return false;
        left_ -= bytes;
        return true;
    }

  private:
    size_t left_;
};

template <typename T>
size_t length(const T *vector) {
    return vector != nullptr ? vector->size() : 0;
}

// A code that this library does not know comes from a newer one; its sentence says the rest.
int known_code(int32_t code) {
    return std::string_view(status_name(code)) == "KVF_ERR_?" ? KVF_ERR_PEER_ABORTED : code;
}

Status read_cause(const wire::Cause &from, bool may_be_ok, Budget *budget, Cause *out) {
    if (from.code() > 0 || (from.code() == 0 && !may_be_ok) || from.rank() < -1)
        return bad(text("a cause with code %d and rank %d", from.code(), from.rank()));
    if (!budget->take(from.sentence(), kMostSentence, &out->sentence))
        return bad("a cause whose sentence is too long");
    out->code = known_code(from.code());
    out->rank = from.rank();
    return {};
}

bool read_place(const wire::Place *from, RankOf *out) {
    if (from != nullptr)
        *out = {from->rank(), from->size()};
    return out->rank < out->size;
}

Status read(const wire::Hello &from, Budget *budget, HelloMessage *out) {
    out->version_min = from.version_min();
    out->version_max = from.version_max();
    if (out->version_min == 0 || out->version_min > out->version_max)
        return bad(text("wire versions %u to %u", out->version_min, out->version_max));
    out->features = from.features();
    out->required_features = from.required_features();
    out->instance = from.instance();
    out->role = from.role();
    out->rank = from.rank();
    out->connection = from.connection();
    if (out->instance == 0)
        return bad("instance 0");
    if (out->role < KVF_ROLE_PREFILL || out->role > KVF_ROLE_BOTH)
        return bad(text("role %u", out->role));
    if (out->rank > INT32_MAX)
        return bad(text("rank %u", out->rank));
    if (!read_place(from.tp(), &out->tp) || !read_place(from.pp(), &out->pp) || !read_place(from.dp(), &out->dp))
        return bad("a rank that is not below its size");
    if (!budget->take(from.name(), kMostName, &out->name) || !budget->take(from.proof(), kMostProof, &out->proof))
        return bad("a name or proof that is too long");
    return {};
}

// page_bytes == rows * axis_count * unit_bytes, the interval within its axis.
bool shape_fits(const Tensor &tensor) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(tensor.rows, tensor.axis_count, &bytes) ||
        __builtin_mul_overflow(bytes, tensor.unit_bytes, &bytes))
        return false;
    return bytes != 0 && bytes == tensor.page_bytes && tensor.axis_begin <= tensor.axis_total &&
           tensor.axis_count <= tensor.axis_total - tensor.axis_begin;
}

bool lies_within(const Tensor &tensor, uint64_t region_length) {
    if (tensor.page_count == 0 || tensor.page_count > kMostPageCount || tensor.page_stride < tensor.page_bytes)
        return false;
    uint64_t end = 0;
    return !__builtin_mul_overflow(tensor.page_count - 1, tensor.page_stride, &end) &&
           !__builtin_add_overflow(end, tensor.page_bytes, &end) &&
           !__builtin_add_overflow(end, tensor.region_offset, &end) && end <= region_length;
}

Tensor read_tensor(const wire::Tensor &from) {
    Tensor out;
    out.name = {from.group(), from.layer(), from.part()};
    out.dtype = from.dtype();
    out.page_count = from.page_count();
    out.page_bytes = from.page_bytes();
    out.page_stride = from.page_stride();
    out.rows = from.rows();
    out.axis_begin = from.axis_begin();
    out.axis_count = from.axis_count();
    out.axis_total = from.axis_total();
    out.unit_bytes = from.unit_bytes();
    out.region = from.region();
    out.region_offset = from.region_offset();
    return out;
}

Status read(const wire::Layout &from, Budget *, LayoutMessage *out) {
    const size_t tensors = length(from.tensors()), regions = length(from.regions());
    if (from.version() == 0 || tensors == 0 || tensors > kMostTensors || regions == 0 || regions > kMostTensors)
        return bad(text("version %llu with %zu tensors in %zu regions", static_cast<unsigned long long>(from.version()),
                        tensors, regions));
    out->layout.version = from.version();
    out->compared = from.compared();
    out->regions.reserve(regions);
    for (const wire::Region *region : *from.regions()) {
        if (region->length() == 0)
            return bad(text("region %zu has no bytes", out->regions.size()));
        out->regions.push_back({region->length(), region->memory_kind()});
    }
    out->layout.tensors.reserve(tensors);
    for (const wire::Tensor *told : *from.tensors()) {
        const Tensor tensor = read_tensor(*told);
        const std::string name = describe(tensor.name);
        if (!out->layout.tensors.empty() && !(out->layout.tensors.back().name < tensor.name))
            return bad(name + " is out of order or there twice");
        if (!shape_fits(tensor))
            return bad(name + " has a shape that is empty or not that of its page_bytes");
        if (tensor.region >= regions || !lies_within(tensor, out->regions[tensor.region].length))
            return bad(name + " does not lie within its region");
        out->layout.tensors.push_back(tensor);
    }
    return {};
}

Status read(const wire::Regions &from, Budget *budget, RegionsMessage *out) {
    out->layout_version = from.layout_version();
    if (length(from.transports()) > kMostTransports)
        return bad(text("%zu transports", length(from.transports())));
    for (const wire::TransportKeys *told : *from.transports()) {
        TransportKeys keys;
        if (!budget->take(told->name(), kMostName, &keys.name) ||
            !budget->take(told->address(), kMostBlob, &keys.address) || length(told->keys()) > kMostTensors)
            return bad("a transport whose name, address or list of keys is too long");
        keys.keys.reserve(length(told->keys()));
        for (const wire::Blob *key : *told->keys())
            if (!budget->take(key->bytes(), kMostBlob, &keys.keys.emplace_back()))
                return bad("a key of transport " + keys.name + " is too long");
        const auto same = [&](const TransportKeys &other) { return other.name == keys.name; };
        if (keys.name.empty() || std::ranges::any_of(out->transports, same))
            return bad("transport \"" + keys.name + "\" without a name or there twice");
        out->transports.push_back(std::move(keys));
    }
    return {};
}

Status read(const wire::Select &from, Budget *budget, SelectMessage *out) {
    if (!budget->take(from.transport(), kMostName, &out->transport) ||
        !budget->take(from.blob(), kMostBlob, &out->blob))
        return bad("a name or blob that is too long");
    return {};
}

Status read(const wire::Ready &from, Budget *budget, ReadyMessage *out) {
    if (!budget->take(from.blob(), kMostBlob, &out->blob) || length(from.refusals()) > kMostTransports)
        return bad("a blob or list of refusals that is too long");
    if (from.refusals() == nullptr)
        return {};
    for (const wire::Refusal *told : *from.refusals()) {
        Refusal &refusal = out->refusals.emplace_back();
        if (told->code() >= 0 || !budget->take(told->transport(), kMostName, &refusal.transport) ||
            !budget->take(told->sentence(), kMostSentence, &refusal.sentence))
            return bad(text("a refusal with code %d, or too long a text", told->code()));
        refusal.code = known_code(told->code());
    }
    return {};
}

Status read_pages(const wire::PageRuns &from, Budget *budget, uint64_t *pages, PageRuns *out) {
    *out = PageRuns(from.group(), {});
    if (from.runs() == nullptr)
        return {};
    if (!budget->take(from.runs()->size() * sizeof(wire::Run)))
        return bad(text("group %u has runs that are another's", from.group()));
    for (const wire::Run *run : *from.runs()) {
        if (run->count() == 0 || uint64_t{run->first()} + run->count() > kMostPageCount)
            return bad(text("group %u has a run of %u pages from %u", from.group(), run->count(), run->first()));
        if (run->count() > kMostPages - *pages)
            return bad(text("more than %llu pages", static_cast<unsigned long long>(kMostPages)));
        *pages += run->count();
        out->append(run->first(), run->count());
    }
    return {};
}

Status read(const wire::Offer &from, Budget *budget, OfferMessage *out) {
    out->room_id = from.room_id();
    out->receiver = from.receiver();
    out->prefix_tokens = from.prefix_tokens();
    if (length(from.groups()) > kMostGroups)
        return bad(text("%zu groups", length(from.groups())));
    if (from.groups() == nullptr)
        return {};
    uint64_t pages = 0;
    std::set<uint32_t> seen;
    for (const wire::PageRuns *runs : *from.groups()) {
        if (!seen.insert(runs->group()).second)
            return bad(text("group %u is there twice", runs->group()));
        if (Status status = read_pages(*runs, budget, &pages, &out->lists.emplace_back()); !status.ok())
            return status;
    }
    return {};
}

Status read(const wire::Status &from, Budget *budget, StatusMessage *out) {
    out->room_id = from.room_id();
    out->receiver = from.receiver();
    out->news.drained = from.drained();
    out->news.bytes = from.bytes();
    out->news.segments = from.segments();
    switch (from.progress()) {
        case wire::Progress::Began:
            out->news.kind = RoomNews::kBegan;
            break;
        case wire::Progress::Success:
            out->news.kind = RoomNews::kSuccess;
            break;
        case wire::Progress::Failed:
            out->news.kind = RoomNews::kFailed;
            break;
        default:
            return bad(text("progress %u", static_cast<unsigned>(from.progress())));
    }
    if ((from.progress() == wire::Progress::Failed) != (from.cause() != nullptr))
        return bad("a cause without a failure, or the reverse");
    return from.cause() != nullptr ? read_cause(*from.cause(), false, budget, &out->news.cause) : Status();
}

Status read(const wire::Abort &from, Budget *budget, AbortMessage *out) {
    out->room_id = from.room_id();
    out->receiver = from.receiver();
    out->offered = from.offered();
    out->offered_on = from.offered_on();
    if (out->offered_on != 0 && !out->offered)
        return bad("a connection for an offer that was not made");
    return read_cause(*from.cause(), false, budget, &out->cause);
}

Status read(const wire::Drained &from, Budget *, DrainedMessage *out) {
    out->room_id = from.room_id();
    out->receiver = from.receiver();
    return {};
}

Status read(const wire::Heartbeat &from, Budget *, HeartbeatMessage *out) {
    out->ask = from.ask();
    return {};
}

Status read(const wire::Bye &from, Budget *budget, ByeMessage *out) {
    out->later = from.later();
    return read_cause(*from.cause(), from.later(), budget, &out->cause);
}

template <typename Plain, typename Told>
Status read_into(const Told *from, size_t size, WireMessage *message) {
    Budget budget(size);
    Status status = read(*from, &budget, &message->emplace<Plain>());
    if (status.ok())
        return status;
    return {status.code(), std::string("malformed ") + kMessageNames[message->index()] + ": " + status.sentence()};
}

} // namespace

Status decode(std::span<const uint8_t> frame, WireMessage *message) {
    flatbuffers::Verifier verifier(frame.data(), frame.size(), kMostDepth, kMostTables);
    if (frame.size() < kFrameHeader + 2 * sizeof(flatbuffers::uoffset_t) ||
        !wire::VerifySizePrefixedFrameBuffer(verifier))
        return fail(KVF_ERR_PROTOCOL, "a frame of %zu bytes that is no valid message", frame.size());
    const wire::Frame &root = *wire::GetSizePrefixedFrame(frame.data());
    const size_t size = frame.size();
    switch (root.message_type()) {
        case wire::Message::Hello:
            return read_into<HelloMessage>(root.message_as_Hello(), size, message);
        case wire::Message::Layout:
            return read_into<LayoutMessage>(root.message_as_Layout(), size, message);
        case wire::Message::Regions:
            return read_into<RegionsMessage>(root.message_as_Regions(), size, message);
        case wire::Message::Select:
            return read_into<SelectMessage>(root.message_as_Select(), size, message);
        case wire::Message::Ready:
            return read_into<ReadyMessage>(root.message_as_Ready(), size, message);
        case wire::Message::Offer:
            return read_into<OfferMessage>(root.message_as_Offer(), size, message);
        case wire::Message::Status:
            return read_into<StatusMessage>(root.message_as_Status(), size, message);
        case wire::Message::Abort:
            return read_into<AbortMessage>(root.message_as_Abort(), size, message);
        case wire::Message::Drained:
            return read_into<DrainedMessage>(root.message_as_Drained(), size, message);
        case wire::Message::Heartbeat:
            return read_into<HeartbeatMessage>(root.message_as_Heartbeat(), size, message);
        case wire::Message::Bye:
            return read_into<ByeMessage>(root.message_as_Bye(), size, message);
        default:
            return fail(KVF_ERR_PROTOCOL, "a message of the unknown kind %u",
                        static_cast<unsigned>(root.message_type()));
    }
}

} // namespace kvf
