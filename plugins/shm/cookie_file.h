// What an instance's cookie file holds, which its peers map and only the instance can write. That it stands there is
// the proof that it is the instance's own word: a blob that came over a connection is anyone's.
#pragma once

#include "memfd.h"

#include <fcntl.h>

#include <array>
#include <atomic>
#include <optional>

namespace shm {

using Nonce = std::array<uint64_t, 2>;

// Another process reads while the instance writes.
using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free, "another process has no share in a lock");
static_assert(sizeof(Word) == sizeof(uint64_t), "read as plain bytes by process_vm_readv");

// A region as its instance registered it.
struct RegionRecord {
    uint64_t base = 0;
    uint64_t length = 0;
    FileId file; // of the memfd, and the offset of base in it; zero without one
    uint64_t fd_offset = 0;
    int32_t fd = -1; // -1: no memfd
};

// The place of a record. Each registration has a serial of its own, so a place that was used anew, also while it was
// read, is never taken for what stood there before.
class RegionSlot {
  public:
    void write(const RegionRecord &record, uint64_t serial);
    void clear() { serial_.store(0, std::memory_order_release); }

    std::optional<RegionRecord> read(uint64_t serial) const;
    // Whatever is registered there now.
    std::optional<RegionRecord> read() const { return read(serial_.load(std::memory_order_acquire)); }

  private:
    Word serial_; // 0: nothing
    Word base_, length_, device_, inode_, fd_offset_, fd_;
    Word unused_;
};
static_assert(sizeof(RegionSlot) == 64, "a line of its own");

// An instance's answer to a peer: the challenge that it was given over the connection on which it knows the peer, and
// the nonce of the instance that it takes the peer for.
class AnswerSlot {
  public:
    void write(const Nonce &challenge, const Nonce &peer);
    void clear() { write({}, {}); }
    bool holds(const Nonce &challenge, const Nonce &peer) const;

  private:
    std::array<Word, 2> challenge_;
    std::array<Word, 2> peer_;
};

// The nonce stands there for as long as the instance is open.
struct CookieHead {
    std::array<Word, 2> nonce;
    Word instance_id;
    Word address;      // of this head in the instance's process
    Word region_slots; // how many have ever been used: the first so many
};

// All zero but what is used, so it takes hardly more memory than that.
struct CookieFile {
    static constexpr size_t kRegions = 65536;
    static constexpr size_t kPeers = 65536;

    alignas(4096) CookieHead head;
    alignas(4096) std::array<RegionSlot, kRegions> regions;
    alignas(4096) std::array<AnswerSlot, kPeers> answers;
};

// Of its size for good, and written through no mapping but the instance's own.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 // Linux 5.1
#endif
constexpr int kCookieSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

// Filled from the kernel's random numbers.
Status make_nonce(Nonce &nonce);

} // namespace shm
