#include "model.h"

#include "base/status_text.h"

#include <algorithm>
#include <cstring>

namespace kvf::sim {

std::string Model::name(const SeenRoom &room) {
    return text("room %llu.%llu (%s on engine %u)", static_cast<unsigned long long>(room.request->id),
                static_cast<unsigned long long>(room.request->serial), room.sender ? "sender" : "receiver",
                room.engine->number());
}

bool Model::own_pages(const SeenRef &room) {
    const uint32_t wanted[2] = {room->request->pages, room->request->aux};
    const uint32_t there[2] = {kPages, kAuxPages};
    for (uint32_t group = 0; group < 2; ++group) {
        uint32_t tries = there[group] * 4;
        while (room->pages[group].size() < wanted[group]) {
            if (tries-- == 0) {
                free_pages(*room);
                return false;
            }
            uint32_t page = static_cast<uint32_t>(world_.random.below(there[group]));
            // Neighbours now and then, so that there are runs.
            if (!room->pages[group].empty() && world_.random.chance(0.5))
                page = (room->pages[group].back() + 1) % there[group];
            const auto [owned, fresh] = owners_.try_emplace({room->engine->instance(), group, page}, room);
            if (fresh)
                room->pages[group].push_back(page);
        }
    }
    return true;
}

void Model::opened(const SeenRef &room) {
    room->opened = world_.now();
    live_.push_back(room);
    by_handle_[{room->engine->instance(), room->handle.value}] = room;
    engines_[room->engine->instance()] = room->engine;
    world_.trace("%s opened", name(*room).c_str());
}

uint8_t Model::expected(const Request &request, uint32_t group, uint32_t tensor, uint32_t position,
                        uint32_t byte) const {
    return static_cast<uint8_t>(mix(request.serial << 24 ^ group << 20 ^ tensor << 14 ^ position << 5 ^ byte));
}

void Model::fill(SeenRoom &room) {
    room.filled = true;
    for (uint32_t group = 0; group < 2; ++group)
        for (uint32_t tensor = 0; tensor < room.engine->tensors(group); ++tensor)
            for (uint32_t i = 0; i < room.pages[group].size(); ++i) {
                uint8_t *page = room.engine->page(group, tensor, room.pages[group][i]);
                for (uint32_t byte = 0; byte < (group == 0 ? kPageBytes : kAuxBytes); ++byte)
                    page[byte] = expected(*room.request, group, tensor, i, byte);
            }
}

void Model::verify(const SeenRoom &room) {
    for (uint32_t group = 0; group < 2; ++group)
        for (uint32_t tensor = 0; tensor < room.engine->tensors(group); ++tensor)
            for (uint32_t i = 0; i < room.pages[group].size(); ++i) {
                const uint8_t *page = room.engine->page(group, tensor, room.pages[group][i]);
                for (uint32_t byte = 0; byte < (group == 0 ? kPageBytes : kAuxBytes); ++byte)
                    if (page[byte] != expected(*room.request, group, tensor, i, byte))
                        return world_.violation(
                            "%s should be whole, but page %u of group %u, tensor %u, position %u is wrong",
                            name(room).c_str(), room.pages[group][i], group, tensor, i);
            }
}

void Model::free_pages(SeenRoom &room) {
    for (uint32_t group = 0; group < 2; ++group) {
        for (const uint32_t page : room.pages[group]) {
            owners_.erase({room.engine->instance(), group, page});
            for (uint32_t tensor = 0; tensor < room.engine->tensors(group); ++tensor)
                std::memset(room.engine->page(group, tensor, page), 0xdd, group == 0 ? kPageBytes : kAuxBytes);
        }
        room.pages[group].clear();
    }
}

void Model::engine_gone(const SimEngine &engine) {
    for (const SeenRef &room : live_)
        if (room->engine.get() == &engine)
            room->gone = true;
    sweep();
    std::erase_if(owners_, [&](const auto &entry) { return entry.first.incarnation == engine.instance(); });
}

void Model::sweep() {
    std::erase_if(live_, [&](const SeenRef &room) {
        if (room->gone)
            by_handle_.erase({room->engine->instance(), room->handle.value});
        return room->gone;
    });
}

SeenRef Model::find(const SimEngine &engine, RoomHandle handle) const {
    const auto found = by_handle_.find({engine.instance(), handle.value});
    return found == by_handle_.end() ? nullptr : found->second;
}

void Model::changed(SimEngine &engine, uint32_t slot) {
    RoomHandle handle;
    RoomWord word;
    uint64_t id = 0;
    if (!engine.table().at(slot, &handle, &word, &id))
        return;
    const SeenRef room = find(engine, handle);
    if (!room)
        return;
    const uint8_t state = word.state();
    if (room->over()) {
        if (state != room->state || word.code() != room->code)
            world_.violation("%s ended twice: %u (%d), then %u (%d)", name(*room).c_str(), room->state, room->code,
                             state, word.code());
        if (room->quiesced && !word.quiesced())
            world_.violation("%s was quiesced and is not any more", name(*room).c_str());
    } else if (state != KVF_STATE_FAILED && state < room->state) {
        world_.violation("%s went from state %u to %u", name(*room).c_str(), room->state, state);
    }
    if (word.quiesced() && state != KVF_STATE_FAILED && state != KVF_STATE_SUCCESS)
        world_.violation("%s is quiesced in state %u", name(*room).c_str(), state);
    if (state == KVF_STATE_SUCCESS && !word.quiesced())
        world_.violation("%s is Success and not quiesced", name(*room).c_str());
    if (state == KVF_STATE_FAILED && word.code() == KVF_OK)
        world_.violation("%s failed without a cause", name(*room).c_str());
    const bool ends = !room->over() && (state == KVF_STATE_FAILED || state == KVF_STATE_SUCCESS);
    if (state != room->state || word.quiesced() != room->quiesced)
        world_.trace("%s: state %u%s %s", name(*room).c_str(), state, word.quiesced() ? " quiesced" : "",
                     word.code() == KVF_OK ? "" : status_name(word.code()));
    room->state = state;
    room->quiesced = word.quiesced();
    room->code = word.code();
    if (!ends)
        return;
    room->ended = world_.now();
    ++(state == KVF_STATE_SUCCESS ? successes : failures);
    ++codes[room->code];
    judge_end(*room);
}

void Model::judge_end(const SeenRoom &room) {
    constexpr uint64_t kLate = 100 * kMilli; // inboxes, a connection that breaks in between
    if (room.ended - room.opened > 3 * deadline + kLate)
        world_.violation("%s ends %.1f ms after its open, with three deadlines of %.1f ms", name(room).c_str(),
                         static_cast<double>(room.ended - room.opened) / kMilli,
                         static_cast<double>(deadline) / kMilli);
    if (orderly && room.state == KVF_STATE_FAILED && !room.request->given_up)
        world_.violation("%s fails (%s) where nothing goes wrong", name(room).c_str(), status_name(room.code));
    if (room.state != KVF_STATE_SUCCESS)
        return;
    if (!room.sender)
        return verify(room);
    // What it says has arrived is there, at each receiver that still owns its pages.
    for (const SeenRef &other : live_)
        if (other->request == room.request && !other->sender && !other->quiesced && !other->gone)
            verify(*other);
}

SeenRef Model::owner(const Memory &memory, uint64_t offset) {
    const auto found = engines_.find(memory.incarnation);
    const EngineRef engine = found == engines_.end() ? nullptr : found->second.lock();
    if (!engine)
        return nullptr;
    const uint64_t paged = uint64_t{engine->params().layers} * 2 * kPages * kPageBytes;
    const uint32_t group = offset < paged ? 0 : 1;
    const auto page = static_cast<uint32_t>(group == 0 ? offset / kPageBytes % kPages : (offset - paged) / kAuxBytes);
    const auto owned = owners_.find({memory.incarnation, group, page});
    return owned == owners_.end() ? nullptr : owned->second;
}

void Model::landed(const Piece &piece) {
    for (uint64_t at = 0; at < piece.length; at += kAuxBytes) {
        const SeenRef target = owner(*piece.to, piece.to_offset + at);
        if (!target)
            return world_.violation("a write from engine %u lands on engine %u in a page that is nobody's",
                                    piece.from->engine, piece.to->engine);
        if (target->quiesced)
            return world_.violation("a write lands in %s, which is quiesced", name(*target).c_str());
        if (piece.from->gone)
            continue;
        const SeenRef source = owner(*piece.from, piece.from_offset + at);
        if (!source || source->quiesced)
            return world_.violation("a page of engine %u is read that is quiesced or nobody's, for %s",
                                    piece.from->engine, name(*target).c_str());
        if (!source->filled)
            return world_.violation("%s is read before its fence fired", name(*source).c_str());
        if (source->request != target->request)
            return world_.violation("%s is written to %s", name(*source).c_str(), name(*target).c_str());
    }
}

} // namespace kvf::sim
