// Our own cookie: the file that tells peers who we are, which regions we have registered for them, and what we answer
// to their challenges. Sealed, so that a peer that gets hold of it maps it to read and not to write.
#pragma once

#include "cookie_file.h"
#include "slots.h"

namespace shm {

class Cookie {
  public:
    Cookie() = default;
    Cookie(const Cookie &) = delete;
    Cookie &operator=(const Cookie &) = delete;
    ~Cookie();

    Status bake(uint64_t instance_id);

    // A record's place and serial are what its key says. After the removal no peer finds it there.
    Status add(const RegionRecord &record, uint32_t &slot, uint64_t &serial);
    void remove_region(uint32_t slot);

    // A place for what we answer to one peer.
    Status reserve_answer(uint32_t &slot);
    void answer(uint32_t slot, const Nonce &challenge, const Nonce &peer);
    void remove_answer(uint32_t slot);

    const Nonce &nonce() const { return nonce_; }
    int fd() const { return memfd_.get(); }
    const FileId &file() const { return id_; }

  private:
    // A child after fork shares the file with the instance that lives on in its parent.
    bool is_ours() const;

    Nonce nonce_{};
    Fd memfd_;
    FileId id_;
    CookieFile *file_ = nullptr;
    pid_t owner_ = 0;
    uint64_t serials_ = 0;
    Slots region_slots_{CookieFile::kRegions};
    Slots answer_slots_{CookieFile::kPeers};
};

} // namespace shm
