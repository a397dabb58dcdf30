#include "shard_side.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace kvf {

PageList pages(uint32_t group, std::vector<uint32_t> list) {
    return {group, std::move(list)};
}

std::vector<uint32_t> range(uint32_t begin, uint32_t count) {
    std::vector<uint32_t> out(count);
    std::iota(out.begin(), out.end(), begin);
    return out;
}

Side::Side(std::string name, uint64_t instance, uint64_t stretch, const ShardConfig &config, uint32_t slots)
    : name(std::move(name)), instance(instance), table(slots, static_cast<uint8_t>(instance), 1), shard(config, table) {
    for (uint32_t layer = 0; layer < 3; ++layer)
        for (const uint32_t part : {KVF_PART_K, KVF_PART_V})
            add_tensor({kKv, layer, part}, 64, 32, stretch);
    add_tensor({kAux, 0, KVF_PART_AUX}, 24, 8, stretch);
    layout.version = 1;
    memory_.assign(layout.regions.back().fd_offset + layout.regions.back().length, kUntouched);
    for (MemoryRegion &region : layout.regions)
        region.base = memory_.data() + region.fd_offset;
}

// A region for each; where in the memory it lies is noted as the offset in its descriptor, which it has not.
void Side::add_tensor(const TensorName &tensor_name, uint64_t page_bytes, uint64_t page_count, uint64_t stretch) {
    Tensor tensor;
    tensor.name = tensor_name;
    tensor.page_count = page_count;
    tensor.page_bytes = tensor.unit_bytes = page_bytes;
    tensor.page_stride = page_bytes + stretch;
    tensor.region = static_cast<uint32_t>(layout.regions.size());
    tensor.region_offset = 8;
    MemoryRegion region;
    if (!layout.regions.empty())
        region.fd_offset = layout.regions.back().fd_offset + layout.regions.back().length;
    region.length = tensor.region_offset + tensor.span() + 8;
    layout.tensors.push_back(tensor);
    layout.regions.push_back(region);
}

Side::~Side() {
    for (auto &[spec, loaded] : loaded_) {
        if (!unload(spec) || testing::Test::HasFailure()) {
            ADD_FAILURE() << name << ": " << spec
                          << " is left open, as it would end the process over what is left in use";
            new Loaded(std::move(loaded));
            continue;
        }
        for (kvf_region *region : loaded.regions)
            loaded.transport->deregister_region(region);
    }
}

void Side::fill(uint64_t seed) {
    filled_ = true;
    std::mt19937_64 random(seed);
    for (uint8_t &byte : memory_)
        byte = static_cast<uint8_t>(random());
}

uint8_t *Side::page(const Tensor &tensor, uint32_t index) {
    return layout.regions[tensor.region].base + tensor.region_offset + index * tensor.page_stride;
}

std::vector<uint8_t> Side::bytes(const Tensor &tensor, uint32_t index) {
    return {page(tensor, index), page(tensor, index) + tensor.page_bytes};
}

Side::Loaded &Side::load(const std::string &spec) {
    const auto [known, fresh] = loaded_.try_emplace(spec);
    Loaded &loaded = known->second;
    if (!fresh)
        return loaded;
    const size_t options = std::min(spec.find('?'), spec.size());
    Status status = Transport::open(spec.substr(0, options), spec.substr(std::min(options + 1, spec.size())), instance,
                                    &loaded.transport);
    EXPECT_TRUE(status.ok()) << status.sentence();
    for (const MemoryRegion &region : layout.regions) {
        kvf_region_params params{};
        params.fd = -1;
        params.base = region.base;
        params.length = region.length;
        loaded.regions.emplace_back();
        status = loaded.transport->register_region(params, &loaded.regions.back());
        EXPECT_TRUE(status.ok()) << status.sentence();
    }
    tell(TransportUp{loaded.transport, std::make_shared<Tally>(1, [](const Status &up) { EXPECT_TRUE(up.ok()); })});
    return loaded;
}

bool Side::unload(const std::string &spec) {
    const Loaded &loaded = loaded_.at(spec);
    const std::shared_ptr<bool> closed = loaded.closed;
    tell(TransportDown{loaded.transport, std::make_shared<Tally>(1, [closed](const Status &) { *closed = true; })});
    advance();
    return *closed;
}

// ------------------------------------------------------------------------------------------------------- what callers
// do

RoomHandle Side::open_sender(uint64_t room_id, uint32_t receivers) {
    OpenSender message;
    const Status opened = table.open(RoomRole::kSender, room_id, {}, &message.room);
    EXPECT_TRUE(opened.ok()) << opened.sentence();
    message.room_id = room_id;
    message.receivers = receivers;
    message.deadlines = deadlines;
    const RoomHandle room = message.room;
    tell(std::move(message));
    return room;
}

RoomHandle Side::open_receiver(uint64_t room_id, uint64_t prefix_tokens) {
    OpenReceiver message;
    const Status opened = table.open(RoomRole::kReceiver, room_id, "prefill", &message.room);
    EXPECT_TRUE(opened.ok()) << opened.sentence();
    message.room_id = room_id;
    message.target.prefill = "prefill";
    message.prefix_tokens = prefix_tokens;
    message.deadlines = deadlines;
    const RoomHandle room = message.room;
    tell(std::move(message));
    return room;
}

void Side::accept(RoomHandle room, std::vector<PageList> lists) {
    for (const PageList &list : lists)
        for (const uint32_t page : list.pages) {
            reused_.erase({list.group, page});
            accepted_[room.value].emplace(list.group, page);
            ever_accepted_.emplace(list.group, page);
        }
    std::vector<PageRuns> runs;
    for (const PageList &list : lists)
        runs.emplace_back(list.group, list.pages);
    tell(Accept{room, std::move(runs), now});
}

void Side::send(RoomHandle room, std::vector<PageList> lists, const ChunkShape &shape) {
    auto chunk = std::make_unique<Chunk>();
    chunk->lists = std::move(lists);
    chunk->layer_begin = shape.layer_begin;
    chunk->layer_count = shape.layer_count;
    chunk->last = shape.last;
    chunk->queued_ns = now;
    if (shape.fence >= 0)
        chunk->fence = OwnedFd(fcntl(shape.fence, F_DUPFD_CLOEXEC, 3));
    tell(SendChunk{room, std::move(chunk)});
}

void Side::abort(RoomHandle room, const std::string &reason) {
    tell(AbortRoom{room, reason});
}

int Side::close(RoomHandle room) {
    const int code = table.retire(room);
    if (code == KVF_OK)
        tell(CloseRoom{room});
    return code;
}

void Side::close_deferred(RoomHandle room) {
    tell(CloseRoomDeferred{room});
}

bool Side::stale(RoomHandle room) const {
    RoomWord word;
    return table.load(room, &word) == KVF_ERR_STALE;
}

bool Side::knows(RoomHandle room) const {
    RoomWord word;
    return table.load(room, &word) == KVF_OK;
}

RoomWord Side::word(RoomHandle room) const {
    RoomWord word;
    EXPECT_EQ(table.load(room, &word), KVF_OK) << name << ": a stale room";
    return word;
}

kvf_report Side::report(RoomHandle room) const {
    kvf_report report{};
    EXPECT_EQ(table.report(room, &report), KVF_OK) << name << ": a stale room";
    return report;
}

// -------------------------------------------------------------------------------------------------------- the shard's
// turn

void Side::tell(ToShard &&message) {
    shard.handle(std::move(message), now);
    look();
}

bool Side::advance() {
    const bool more = shard.advance(now);
    look();
    return more;
}

bool Side::look_at_fences() {
    bool any = false;
    const std::map<uint64_t, int> watched = fences;
    for (const auto &[room, fd] : watched) {
        pollfd polled{fd, POLLIN, 0};
        if (poll(&polled, 1, 0) == 1) {
            shard.fence_fired({room}, now);
            look();
            any = true;
        }
    }
    return any;
}

void Side::look() {
    ShardOutput &output = shard.output();
    std::move(output.control.begin(), output.control.end(), std::back_inserter(said));
    output.control.clear();
    for (FenceWatch &change : output.fences) {
        if (change.done.get() >= 0)
            EXPECT_EQ(fences.erase(change.room.value), 1u) << name << ": a fence that was not watched";
        else
            EXPECT_TRUE(fences.emplace(change.room.value, change.fd).second) << name << ": two fences of one room";
    }
    output.fences.clear();
    const std::set<uint32_t> changed(output.changed.begin(), output.changed.end());
    output.changed.clear();
    for (uint32_t slot = 0; slot < table.capacity(); ++slot)
        look_at(slot, changed.contains(slot));
}

void Side::look_at(uint32_t slot, bool announced) {
    RoomHandle room;
    RoomWord word;
    uint64_t room_id = 0;
    if (!table.at(slot, &room, &word, &room_id))
        return;
    RoomWord before = std::exchange(words_[slot], word);
    if (before.generation() != word.generation())
        before = RoomWord::make(word.generation(), KVF_STATE_BOOTSTRAPPING, 0, KVF_OK);
    if (before.value == word.value)
        return;
    SCOPED_TRACE(testing::Message() << name << ", room " << room_id);
    EXPECT_TRUE(announced) << "it changed and nobody was told";
    check_step(before, word);
    if (word.state() == KVF_STATE_FAILED && word.quiesced())
        reuse_pages(room);
}

// A room goes forward and ends once.
void Side::check_step(RoomWord before, RoomWord after) {
    EXPECT_TRUE(!before.ended() || (before.state() == after.state() && before.code() == after.code()))
        << "it ended twice";
    EXPECT_TRUE(after.ended() || after.state() > before.state()) << "it went back";
    EXPECT_TRUE(after.quiesced() || !before.quiesced()) << "it was quiesced before";
    EXPECT_TRUE(after.quiesced() || after.state() != KVF_STATE_SUCCESS) << "a success has to be quiesced";
}

// The caller gives the pages of a failed, quiesced room to somebody else at once.
void Side::reuse_pages(RoomHandle room) {
    const auto given = accepted_.extract(room.value);
    if (given.empty())
        return;
    for (const auto &[group, index] : given.mapped())
        for (const Tensor &tensor : layout.tensors)
            if (tensor.name.group == group && index < tensor.page_count) {
                std::memset(page(tensor, index), kReused, tensor.page_bytes);
                reused_.emplace(group, index);
            }
}

// --------------------------------------------------------------------------------------------------------------- the
// end

void Side::expect_nothing_left() {
    SCOPED_TRACE(name);
    EXPECT_EQ(table.open_rooms(), 0u);
    advance();
    const ShardCounters &counters = shard.counters();
    EXPECT_EQ(counters.open_rooms.load(), 0u);
    EXPECT_EQ(counters.open_operations.load(), 0u);
    EXPECT_EQ(counters.open_unclaimed.load(), 0u);
    EXPECT_EQ(counters.stray_completions.load(), 0u);
    EXPECT_EQ(counters.rooms_opened.load(), counters.rooms_succeeded.load() + counters.rooms_failed.load());
    EXPECT_EQ(shard.next_deadline(), kNever);
    EXPECT_FALSE(shard.must_poll());
    EXPECT_TRUE(fences.empty());
    std::vector<RoomHandle> rooms(table.capacity());
    for (uint32_t i = 0; i < table.capacity(); ++i)
        EXPECT_TRUE(table.open(RoomRole::kSender, i, {}, &rooms[i]).ok()) << "slots are left in use";
    for (const RoomHandle room : rooms) {
        table.publish(room, KVF_STATE_FAILED, KVF_ROOM_QUIESCED, KVF_ERR_ABORTED);
        EXPECT_EQ(table.retire(room), KVF_OK);
        table.release(room);
    }
}

// In memory that started untouched: whatever no room accepted still is, and what was given to others is theirs.
void Side::expect_only_rooms_wrote() {
    if (filled_)
        return;
    SCOPED_TRACE(name);
    for (const auto &[group, index] : reused_)
        for (const Tensor &tensor : layout.tensors)
            if (tensor.name.group == group) {
                EXPECT_TRUE(bytes(tensor, index) == std::vector<uint8_t>(tensor.page_bytes, kReused))
                    << describe(tensor.name) << ", page " << index << " was written after it was quiesced";
            }
    for (const Tensor &tensor : layout.tensors)
        for (uint32_t index = 0; index < tensor.page_count; ++index)
            if (ever_accepted_.contains({tensor.name.group, index}))
                std::memset(page(tensor, index), kUntouched, tensor.page_bytes);
    const auto touched = std::find_if(memory_.begin(), memory_.end(), [](uint8_t byte) { return byte != kUntouched; });
    EXPECT_TRUE(touched == memory_.end()) << "byte " << touched - memory_.begin() << " belongs to no room";
}

} // namespace kvf
