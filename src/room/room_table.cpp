#include "room/room_table.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

namespace kvf {
namespace {

// The longest sleep in wait(): the kernel compares the low half alone, and between our look and its another room may
// have come into the slot that has the same.
constexpr uint64_t kMostSleepNs = 100'000'000;

// The kernel waits on the word's low half: state, flags and code. The generation alone never changes without the state.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

uint32_t *low_half(std::atomic<uint64_t> *word) {
    return reinterpret_cast<uint32_t *>(word);
}

} // namespace

RoomTable::RoomTable(uint32_t capacity, uint8_t tag, uint32_t shards, uint32_t first_generation)
    : capacity_(capacity),
      tag_(tag),
      shards_(shards),
      slots_(std::make_unique<Slot[]>(capacity)),
      reports_(capacity),
      live_of_(capacity, nullptr) {
    free_.reserve(capacity); // release() needs no memory
    for (uint32_t slot = 0; slot < capacity; ++slot)
        slots_[slot].word.store(RoomWord::make(std::max(first_generation, 1u), RoomWord::kFree, 0, KVF_OK).value,
                                std::memory_order_relaxed);
}

Status RoomTable::open(RoomRole role, uint64_t room_id, const std::string &place, RoomHandle *room) {
    const std::lock_guard lock(open_mutex_);
    const auto [live, fresh] = live_.try_emplace(LiveKey{room_id, role, place}, 0);
    if (!fresh)
        return fail(KVF_ERR_EXISTS, "room %llu is open already as a %s%s%s", static_cast<unsigned long long>(room_id),
                    role == RoomRole::kSender ? "sender" : "receiver", place.empty() ? "" : " at ", place.c_str());
    uint32_t slot = 0;
    if (!free_.empty()) {
        slot = free_.back();
        free_.pop_back();
    } else if (unused_ < capacity_) {
        slot = unused_++;
    } else {
        live_.erase(live);
        if (open_rooms_.load(std::memory_order_relaxed) < capacity_)
            return fail(KVF_ERR_AGAIN, "of %u room slots the last are being freed", capacity_);
        return fail(KVF_ERR_FULL, "all %u room slots are in use; KVF_MAX_ROOMS sets how many there are", capacity_);
    }
    live->second = slot;
    live_of_[slot] = &live->first;
    Slot &entry = slots_[slot];
    const uint32_t generation = RoomWord{entry.word.load(std::memory_order_relaxed)}.generation();
    const uint64_t kept = seeded(SeededFault::claims_outlive_their_room) ? entry.claims.load() & UINT32_MAX : 0;
    entry.claims.store(uint64_t{generation} << 32 | kept, std::memory_order_relaxed);
    entry.role.store(role, std::memory_order_relaxed);
    entry.room_id.store(room_id, std::memory_order_release); // whoever reads it sees that the slot was freed: at()
    entry.word.store(RoomWord::make(generation, KVF_STATE_BOOTSTRAPPING, 0, KVF_OK).value, std::memory_order_release);
    open_rooms_.fetch_add(1, std::memory_order_relaxed);
    *room = RoomHandle::make(generation, tag_, slot);
    return {};
}

Status RoomTable::refuse(RoomHandle room, int code) const {
    if (code == KVF_ERR_FOREIGN)
        return fail(code, "room handle 0x%llx was not given by this engine",
                    static_cast<unsigned long long>(room.value));
    const RoomWord word{slots_[room.slot()].word.load(std::memory_order_acquire)};
    return fail(code, "room handle 0x%llx is stale: its slot %u is at generation %u%s",
                static_cast<unsigned long long>(room.value), room.slot(), word.generation(),
                word.state() == RoomWord::kFree ? " and free" : "");
}

bool RoomTable::claim(RoomHandle room, Once what) {
    std::atomic<uint64_t> &claims = slots_[room.slot()].claims;
    uint64_t seen = claims.load(std::memory_order_relaxed);
    do {
        if (seen >> 32 != room.generation() || (seen & what) != 0)
            return false;
    } while (!claims.compare_exchange_weak(seen, seen | what, std::memory_order_acq_rel, std::memory_order_relaxed));
    return true;
}

bool RoomTable::claimed(RoomHandle room, Once what) const {
    return (slots_[room.slot()].claims.load(std::memory_order_acquire) & what) != 0;
}

int RoomTable::retire(RoomHandle room) {
    RoomWord word;
    const int code = load(room, &word);
    if (code != KVF_OK)
        return code;
    if (!word.ended() || !word.quiesced())
        return KVF_ERR_BUSY;
    uint32_t next = room.generation() + 1;
    if (next == 0)
        next = 1;
    {
        // Under the lock, so that whoever finds the handle stale finds the id free.
        const std::lock_guard lock(open_mutex_);
        // The shard does not write the word of a room at its end; only another close can come between.
        if (!slots_[room.slot()].word.compare_exchange_strong(
                word.value, RoomWord::make(next, RoomWord::kFree, 0, KVF_OK).value, std::memory_order_seq_cst))
            return KVF_ERR_STALE;
        live_.erase(*live_of_[room.slot()]);
        live_of_[room.slot()] = nullptr;
        open_rooms_.fetch_sub(1, std::memory_order_relaxed);
    }
    wake(room.slot());
    return KVF_OK;
}

void RoomTable::wait(RoomHandle room, RoomWord seen, uint64_t timeout_ns) {
    Slot &slot = slots_[room.slot()];
    slot.waiters.fetch_add(1, std::memory_order_seq_cst);
    if (slot.word.load(std::memory_order_seq_cst) == seen.value) {
        timespec time{};
        time.tv_nsec = static_cast<long>(std::min(timeout_ns, kMostSleepNs));
        syscall(SYS_futex, low_half(&slot.word), FUTEX_WAIT_PRIVATE, static_cast<uint32_t>(seen.value), &time, nullptr,
                0);
    }
    slot.waiters.fetch_sub(1, std::memory_order_relaxed);
}

void RoomTable::wake(uint32_t slot) {
    if (slots_[slot].waiters.load(std::memory_order_seq_cst) != 0)
        syscall(SYS_futex, low_half(&slots_[slot].word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool RoomTable::at(uint32_t slot, RoomHandle *room, RoomWord *word, uint64_t *room_id) const {
    // Another room may come into the slot between the two readings: the id has to be that of the word.
    for (RoomWord again{slots_[slot].word.load(std::memory_order_acquire)};;) {
        *word = again;
        if (word->state() == RoomWord::kFree)
            return false;
        *room_id = slots_[slot].room_id.load(std::memory_order_acquire);
        again.value = slots_[slot].word.load(std::memory_order_acquire);
        if (again.generation() == word->generation())
            break;
    }
    *room = RoomHandle::make(word->generation(), tag_, slot);
    return true;
}

int RoomTable::report(RoomHandle room, kvf_report *out) const {
    const std::lock_guard lock(stripe(room.slot()));
    RoomWord word;
    const int code = load(room, &word);
    if (code != KVF_OK)
        return code;
    const auto &report = reports_[room.slot()];
    if (report && report->struct_size != 0) {
        *out = *report;
    } else {
        *out = {};
        out->rank = -1;
    }
    out->room_id = room_id(room);
    out->state = word.state();
    out->flags = word.flags();
    out->code = word.code();
    return KVF_OK;
}

uint32_t RoomTable::unquiesced() const {
    const std::lock_guard lock(open_mutex_);
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < unused_; ++slot) {
        const RoomWord word{slots_[slot].word.load(std::memory_order_acquire)};
        count += word.state() != RoomWord::kFree && !word.quiesced() ? 1 : 0;
    }
    return count;
}

void RoomTable::publish(RoomHandle room, uint8_t state, uint8_t flags, int code) {
    slots_[room.slot()].word.store(RoomWord::make(room.generation(), state, flags, code).value,
                                   std::memory_order_seq_cst);
}

void RoomTable::file(RoomHandle room, const kvf_report &report) {
    const std::lock_guard lock(stripe(room.slot()));
    auto &kept = reports_[room.slot()];
    if (!kept)
        kept = std::make_unique<kvf_report>();
    *kept = report;
    kept->struct_size = sizeof report;
}

void RoomTable::release(RoomHandle room) {
    {
        const std::lock_guard lock(stripe(room.slot()));
        if (reports_[room.slot()])
            reports_[room.slot()]->struct_size = 0;
    }
    const std::lock_guard lock(open_mutex_);
    free_.push_back(room.slot());
}

} // namespace kvf
