#include "stranger.h"

namespace kvf::fuzz {
namespace {

std::string short_text(Input *in) {
    return in->text(in->below(40));
}

Bytes blob(const std::string &text) {
    return {text.begin(), text.end()};
}

void change(Cause *cause, Input *in) {
    cause->code = static_cast<int>(in->number());
    cause->rank = static_cast<int32_t>(in->number());
    cause->sentence = short_text(in);
}

void change(RankOf *of, Input *in) {
    *of = {static_cast<uint32_t>(in->number()), static_cast<uint32_t>(in->number())};
}

// ------------------------------------------------------------------------------------------------ one field each

void change(HelloMessage *hello, uint32_t field, Input *in) {
    switch (field % 11) {
        case 0:
            hello->instance = in->number();
            break;
        case 1:
            hello->role = static_cast<uint32_t>(in->number());
            break;
        case 2:
            hello->version_min = static_cast<uint16_t>(in->number());
            break;
        case 3:
            hello->version_max = static_cast<uint16_t>(in->number());
            break;
        case 4:
            hello->required_features = in->number();
            break;
        case 5:
            hello->features = in->number();
            break;
        case 6:
            hello->name = short_text(in);
            break;
        case 7:
            hello->rank = static_cast<uint32_t>(in->number());
            break;
        case 8:
            change(in->below(2) == 0 ? &hello->tp : &hello->dp, in);
            break;
        case 9:
            hello->proof.assign(in->number() % (2 * kMostProof), 1);
            break;
        default:
            hello->connection = in->number();
    }
}

void change(Tensor *tensor, Input *in) {
    uint64_t *const fields[] = {&tensor->page_count, &tensor->page_bytes, &tensor->page_stride,
                                &tensor->rows,       &tensor->axis_begin, &tensor->axis_count,
                                &tensor->axis_total, &tensor->unit_bytes, &tensor->region_offset};
    uint32_t *const small[] = {&tensor->name.group, &tensor->name.layer, &tensor->name.part, &tensor->dtype,
                               &tensor->region};
    const uint32_t field = in->below(14);
    if (field < 9)
        *fields[field] = in->number();
    else
        *small[field - 9] = static_cast<uint32_t>(in->number());
}

void change(LayoutMessage *message, uint32_t field, Input *in) {
    Layout &layout = message->layout;
    switch (field % 7) {
        case 0:
            layout.version = in->number();
            break;
        case 1:
            message->compared = in->number();
            break;
        case 2:
            if (!layout.tensors.empty())
                change(&layout.tensors[in->byte() % layout.tensors.size()], in);
            break;
        case 3:
            if (!message->regions.empty())
                message->regions[in->byte() % message->regions.size()] = {in->number(),
                                                                          static_cast<uint32_t>(in->number())};
            break;
        case 4:
            layout.tensors.resize(in->below(4));
            break;
        case 5:
            message->regions.resize(in->below(4));
            break;
        default: // as many pages in each
            for (Tensor &tensor : layout.tensors)
                tensor.page_count = 1 + in->number() % kTensorPages;
    }
}

void change(RegionsMessage *message, uint32_t field, Input *in) {
    switch (field % 5) {
        case 0:
            message->layout_version = in->number();
            break;
        case 1:
            message->transports.resize(in->below(4));
            break;
        case 2:
            if (!message->transports.empty())
                message->transports.back().name = short_text(in);
            break;
        case 3:
            if (!message->transports.empty())
                message->transports.back().address = blob(short_text(in));
            break;
        default:
            if (!message->transports.empty()) {
                const uint32_t count = in->below(4);
                message->transports.back().keys.assign(count, blob(short_text(in)));
            }
    }
}

void change(SelectMessage *message, uint32_t field, Input *in) {
    if (field % 2 == 0)
        message->transport = short_text(in);
    else
        message->blob = blob(short_text(in));
}

void change(ReadyMessage *message, uint32_t field, Input *in) {
    switch (field % 3) {
        case 0:
            message->blob = blob(short_text(in));
            break;
        case 1:
            message->refusals.push_back({short_text(in), KVF_ERR_NO_TRANSPORT, short_text(in)});
            break;
        default: {
            const uint32_t count = in->below(80);
            message->refusals.resize(count, {"fake", static_cast<int>(in->number()), "no"});
        }
    }
}

// A room's id and the receiver's token in it stand first in all its messages.
template <typename RoomMessage>
bool change_room(RoomMessage *message, uint32_t field, Input *in) {
    if (field > 1)
        return false;
    (field == 0 ? message->room_id : message->receiver) = in->number();
    return true;
}

void change(OfferMessage *message, uint32_t field, Input *in) {
    if (change_room(message, field % 5, in))
        return;
    if (field % 5 == 2) {
        message->prefix_tokens = in->number();
    } else if (field % 5 == 3) {
        message->lists.clear();
    } else {
        PageRuns &runs = message->lists.emplace_back(static_cast<uint32_t>(in->number()), std::vector<uint32_t>());
        for (uint32_t count = in->below(5); count != 0; --count) {
            const auto first = static_cast<uint32_t>(in->number());
            runs.append(first, static_cast<uint32_t>(1 + in->number() % (UINT32_MAX - uint64_t{first} + 1)));
        }
    }
}

void change(StatusMessage *message, uint32_t field, Input *in) {
    if (change_room(message, field % 5, in))
        return;
    RoomNews &news = message->news;
    if (field % 5 == 2) {
        news.kind = static_cast<RoomNews::Kind>(in->below(3));
        news.cause.code = news.kind == RoomNews::kFailed ? KVF_ERR_TRANSPORT : KVF_OK;
    } else if (field % 5 == 3) {
        change(&news.cause, in);
    } else {
        news.drained = in->below(2) != 0;
        news.bytes = in->number();
        news.segments = in->number();
    }
}

void change(AbortMessage *message, uint32_t field, Input *in) {
    if (change_room(message, field % 5, in))
        return;
    if (field % 5 == 2)
        message->offered = in->below(2) != 0;
    else if (field % 5 == 3)
        message->offered_on = in->number();
    else
        change(&message->cause, in);
}

void change(DrainedMessage *message, uint32_t field, Input *in) {
    change_room(message, field % 2, in);
}

void change(HeartbeatMessage *message, uint32_t, Input *in) {
    message->ask = in->below(2) != 0;
}

void change(ByeMessage *message, uint32_t field, Input *in) {
    if (field % 2 == 0)
        message->later = in->below(2) != 0;
    else
        change(&message->cause, in);
}

// ------------------------------------------------------------------------------------------------- as they should be

HelloMessage greeting() {
    HelloMessage hello;
    hello.instance = kStranger;
    hello.role = KVF_ROLE_BOTH;
    hello.name = "stranger";
    hello.connection = 9;
    return hello;
}

LayoutMessage layout_told() {
    LayoutMessage message;
    message.layout = common_layout();
    message.compared = message.layout.version;
    for (const MemoryRegion &region : message.layout.regions)
        message.regions.push_back({region.length, region.memory_kind});
    message.layout.regions.clear();
    return message;
}

WireMessage plain(size_t kind) {
    switch (kind) {
        case 0:
            return greeting();
        case 1:
            return layout_told();
        case 2:
            return RegionsMessage{1, {{"fake", blob("at 77"), {blob("key 1"), blob("key 2")}}}};
        case 3:
            return SelectMessage{"fake", blob("from 77")};
        case 4:
            return ReadyMessage{blob("from 77"), {}};
        case 5:
            return OfferMessage{1, 1, 0, {{0, {1, 2, 3, 7}}}};
        case 6:
            return StatusMessage{1, 1, {}};
        case 7:
            return AbortMessage{1, 1, true, {KVF_ERR_ABORTED, 2, "enough"}, 0};
        case 8:
            return DrainedMessage{1, 1};
        case 9:
            return HeartbeatMessage{true};
        default:
            return ByeMessage{false, {KVF_ERR_PEER_CLOSED, 1, "closed"}};
    }
}

} // namespace

Layout common_layout() {
    Layout layout;
    layout.version = 1;
    for (uint32_t layer = 0; layer < 2; ++layer) {
        Tensor tensor;
        tensor.name = {0, layer, KVF_PART_K};
        tensor.dtype = 1;
        tensor.page_count = kTensorPages;
        tensor.page_bytes = tensor.page_stride = tensor.unit_bytes = 4096;
        tensor.region = layer;
        layout.tensors.push_back(tensor);
        layout.regions.emplace_back().length = tensor.span();
    }
    return layout;
}

WireMessage stranger_says(size_t kind, Input input) {
    WireMessage message = plain(kind % std::variant_size_v<WireMessage>);
    while (!input.empty()) {
        const uint32_t field = input.byte();
        std::visit([&](auto &it) { change(&it, field, &input); }, message);
    }
    return message;
}

} // namespace kvf::fuzz
