#include "network.h"

#include "engine.h"

#include <algorithm>

namespace kvf::sim {

void Network::dial(const EngineRef &from, uint64_t connection, const std::string &address) {
    world_.after(latency(), [this, from, connection, address] {
        if (!from->alive())
            return;
        const auto found = listening_.find(address);
        const bool there = found != listening_.end() && found->second->alive();
        if (there && (partitions_.contains({from->number(), found->second->number()}) ||
                      partitions_.contains({found->second->number(), from->number()})))
            return; // no answer
        if (!there) {
            from->on_control([=](Control &control) {
                control.dial_failed(connection, Status(KVF_ERR_PEER_LOST, address + ": connection refused"));
            });
            return;
        }
        const EngineRef to = found->second;
        auto wire = std::make_shared<Wire>();
        wire->ends[0] = {from, connection, true, 0, 0, {}};
        wire->ends[1] = {to, 0, true, 0, 0, {}};
        wires_.push_back(wire);
        to->on_control([&](Control &control) { wire->ends[1].connection = control.accepted(from->address()); });
        if (wire->ends[1].connection == 0)
            return hang_up(wire, 0);
        world_.after(latency(), [wire, from, connection] {
            if (from->alive() && wire->ends[0].open)
                from->on_control([&](Control &control) { control.connected(connection); });
        });
    });
}

Network::WireRef Network::find(const SimEngine &engine, uint64_t connection, int *side) {
    for (const WireRef &wire : wires_)
        for (int i = 0; i < 2; ++i)
            if (wire->ends[i].engine.get() == &engine && wire->ends[i].connection == connection) {
                *side = i;
                return wire;
            }
    return nullptr;
}

bool Network::held_up(const End &from, const End &to) const {
    return partitions_.contains({from.engine->number(), to.engine->number()}) || world_.now() < to.stalled_until;
}

void Network::send(SimEngine &from, uint64_t connection, std::span<const uint8_t> bytes) {
    int side = 0;
    const WireRef wire = find(from, connection, &side);
    if (!wire || wire->broken)
        return;
    carry(wire, 1 - side, std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

void Network::close(SimEngine &from, uint64_t connection) {
    int side = 0;
    const WireRef wire = find(from, connection, &side);
    if (!wire)
        return;
    wire->ends[side].open = false;
    if (!wire->broken)
        carry(wire, 1 - side, {});
}

// What a partition holds up keeps its place: nothing overtakes it.
void Network::carry(const WireRef &wire, int to, std::vector<uint8_t> bytes) {
    End &end = wire->ends[to];
    if (!end.held.empty() || held_up(wire->ends[1 - to], end)) {
        end.held.push_back(std::move(bytes));
        return;
    }
    end.last_delivery = std::max(end.last_delivery, world_.now() + latency());
    world_.at(end.last_delivery, [this, wire, to, bytes = std::move(bytes)]() mutable {
        if (!wire->lossy && held_up(wire->ends[1 - to], wire->ends[to]))
            wire->ends[to].held.push_back(std::move(bytes));
        else
            deliver(wire, to, std::move(bytes));
    });
}

void Network::deliver(const WireRef &wire, int to, std::vector<uint8_t> bytes) {
    const End &end = wire->ends[to];
    if (wire->lossy || !end.open || !end.engine->alive())
        return;
    if (bytes.empty())
        return hang_up(wire, to);
    // As a stream: in pieces that respect no frame.
    size_t begin = 0;
    while (begin < bytes.size() && end.open && end.engine->alive()) {
        const size_t length =
            world_.random.chance(0.9) ? bytes.size() - begin : world_.random.between(1, bytes.size() - begin);
        end.engine->on_control([&](Control &control) {
            control.received(end.connection, std::span<const uint8_t>(bytes).subspan(begin, length));
        });
        begin += length;
    }
}

void Network::hang_up(const WireRef &wire, int to) {
    End &end = wire->ends[to];
    const bool tell = end.open && end.engine->alive();
    end.open = false;
    wire->broken = true;
    std::erase(wires_, wire);
    if (tell)
        end.engine->on_control([&](Control &control) {
            control.closed(end.connection, Status(KVF_ERR_PEER_LOST, "the connection broke"));
        });
}

void Network::cut_one() {
    if (wires_.empty())
        return;
    const WireRef wire = wires_[world_.random.below(wires_.size())];
    wire->broken = true;
    wire->lossy = world_.random.chance(0.5);
    std::erase(wires_, wire);
    for (int i = 0; i < 2; ++i) {
        End &end = wire->ends[i];
        const uint64_t stall = world_.random.chance(0.3) ? world_.random.below(300 * kMilli) : 0;
        end.stalled_until = world_.now() + stall;
        world_.after(stall, [this, wire, i] { release(wire, i); });
        world_.after(stall + most_latency + latency(), [this, wire, i] { hang_up(wire, i); });
    }
}

void Network::crashed(SimEngine &engine, bool silently) {
    const std::vector<WireRef> wires = wires_;
    for (const WireRef &wire : wires)
        for (int i = 0; i < 2; ++i)
            if (wire->ends[i].engine.get() == &engine) {
                wire->broken = true;
                std::erase(wires_, wire);
                if (!silently)
                    world_.after(latency(), [this, wire, i] { hang_up(wire, 1 - i); });
            }
}

void Network::heal(uint32_t from, uint32_t to) {
    partitions_.erase({from, to});
    flush();
}

void Network::heal_all() {
    partitions_.clear();
    flush();
}

void Network::release(const WireRef &wire, int to) {
    if (held_up(wire->ends[1 - to], wire->ends[to]))
        return;
    std::deque<std::vector<uint8_t>> held;
    held.swap(wire->ends[to].held);
    for (auto &bytes : held)
        carry(wire, to, std::move(bytes));
}

void Network::flush() {
    const std::vector<WireRef> wires = wires_;
    for (const WireRef &wire : wires)
        for (int to = 0; to < 2; ++to)
            release(wire, to);
}

} // namespace kvf::sim
