#include "room/unclaimed.h"

#include <algorithm>
#include <tuple>

namespace kvf {
namespace {

constexpr size_t kBookkeeping = 256; // bytes of an entry's nodes in lists and maps, about

} // namespace

std::vector<Unclaimed::Entry> Unclaimed::add(OfferCame &&offer, uint64_t now) {
    Entry entry;
    entry.room_id = offer.room_id;
    entry.instance = offer.link->instance;
    entry.receiver = offer.receiver;
    entry.came_ns = now;
    entry.offer = std::move(offer);
    return keep(std::move(entry));
}

std::vector<Unclaimed::Entry> Unclaimed::add_abort(const AbortCame &abort, uint64_t now) {
    Entry entry;
    entry.room_id = abort.room_id;
    entry.instance = abort.instance;
    entry.receiver = abort.receiver;
    entry.came_ns = now;
    entry.cause = abort.cause;
    return keep(std::move(entry));
}

size_t Unclaimed::cost_of(const Entry &entry) const {
    size_t bytes = sizeof(Entry) + kBookkeeping + entry.cause.sentence.capacity();
    if (entry.offer)
        for (const PageRuns &list : entry.offer->lists)
            bytes += sizeof list + list.bytes();
    return std::max(bytes, least_cost_);
}

// Its holder's part, and all of it, change by that.
void Unclaimed::charge(Entries::iterator entry, size_t before, size_t after) {
    Holder &holder = holders_[entry->instance];
    by_cost_.erase({holder.cost, entry->instance});
    holder.cost += after - before;
    cost_ += after - before;
    if (after == 0)
        holder.entries.erase(entry->number);
    else
        holder.entries[entry->number] = entry;
    if (holder.entries.empty())
        holders_.erase(entry->instance);
    else
        by_cost_.emplace(holder.cost, entry->instance);
}

std::vector<Unclaimed::Entry> Unclaimed::keep(Entry &&entry) {
    entry.number = next_number_++;
    entries_.push_back(std::move(entry));
    const auto kept = std::prev(entries_.end());
    by_room_[kept->room_id].emplace(std::pair(kept->instance, kept->receiver), kept);
    charge(kept, 0, cost_of(*kept));
    offers_ += kept->offer ? 1 : 0;
    std::vector<Entry> out;
    while (cost_ > most_bytes_)
        out.push_back(take(holders_.at(by_cost_.rbegin()->second).entries.begin()->second));
    return out;
}

Unclaimed::Entry Unclaimed::take(Entries::iterator entry) {
    const auto room = by_room_.find(entry->room_id);
    const auto [first, last] = room->second.equal_range({entry->instance, entry->receiver});
    room->second.erase(std::find_if(first, last, [&](const auto &named) { return named.second == entry; }));
    if (room->second.empty())
        by_room_.erase(room);
    charge(entry, cost_of(*entry), 0);
    offers_ -= entry->offer ? 1 : 0;
    Entry out = std::move(*entry);
    entries_.erase(entry);
    return out;
}

Unclaimed::Entries::iterator Unclaimed::find(const AbortCame &abort) {
    const auto room = by_room_.find(abort.room_id);
    if (room == by_room_.end())
        return entries_.end();
    const auto found = room->second.find({abort.instance, abort.receiver});
    return found == room->second.end() ? entries_.end() : found->second;
}

bool Unclaimed::retract(const AbortCame &abort) {
    const auto entry = find(abort);
    if (entry == entries_.end())
        return false;
    give_up(entry, abort.cause);
    entry->lost = false; // its own word
    return true;
}

// Its pages are kept no longer.
void Unclaimed::give_up(Entries::iterator entry, const Cause &cause) {
    const size_t before = cost_of(*entry);
    offers_ -= entry->offer ? 1 : 0;
    entry->offer.reset();
    entry->cause = cause;
    charge(entry, before, cost_of(*entry));
}

std::vector<Unclaimed::Entry> Unclaimed::claim(uint64_t room_id) {
    std::vector<Entries::iterator> named;
    if (const auto room = by_room_.find(room_id); room != by_room_.end())
        for (const auto &[receiver, entry] : room->second)
            named.push_back(entry);
    std::vector<Entry> out;
    for (const auto entry : named)
        out.push_back(take(entry));
    std::sort(out.begin(), out.end(),
              [](const Entry &a, const Entry &b) { return std::tie(a.lost, a.number) < std::tie(b.lost, b.number); });
    return out;
}

void Unclaimed::lost(const LinkRef &link, const Cause &cause) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (!entry->offer || entry->offer->link != link)
            continue;
        give_up(entry, cause);
        entry->lost = true;
    }
}

std::optional<Unclaimed::Entry> Unclaimed::expired(uint64_t limit) {
    if (entries_.empty() || entries_.front().came_ns > limit)
        return {};
    return take(entries_.begin());
}

void EarlyEnds::add(uint64_t room_id, Cause cause, uint32_t missing, uint64_t now) {
    forget(room_id);
    if (ends_.size() >= most_)
        forget(uint64_t{ends_.front().room_id});
    ends_.push_back({room_id, std::move(cause), missing, now});
    by_room_[room_id] = std::prev(ends_.end());
}

std::optional<Cause> EarlyEnds::answer(uint64_t room_id, uint64_t limit) {
    const auto found = by_room_.find(room_id);
    if (found == by_room_.end())
        return {};
    End &end = *found->second;
    std::optional<Cause> out;
    if (end.came_ns > limit)
        out = end.cause;
    if (!out || --end.missing == 0)
        forget(room_id);
    return out;
}

void EarlyEnds::forget(uint64_t room_id) {
    const auto found = by_room_.find(room_id);
    if (found == by_room_.end())
        return;
    ends_.erase(found->second);
    by_room_.erase(found);
}

} // namespace kvf
