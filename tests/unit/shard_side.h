// One engine of the shards' test world: a shard with its room table, tensors in memory of its own, and the calls that
// its callers would make. Whatever the shard does is checked as it does it.
#pragma once

#include "plugin/transport.h"
#include "room/shard.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace kvf {

constexpr uint32_t kKv = 0;  // three layers of keys and values, 32 pages each
constexpr uint32_t kAux = 1; // one tensor of 8 small pages
constexpr uint8_t kUntouched = 0x5a;
constexpr uint8_t kReused = 0xee;
constexpr uint64_t kSecond = 1000 * kNanosPerMilli;

// What a chunk is, but for its lists.
struct ChunkShape {
    bool last = true;
    uint32_t layer_begin = 0, layer_count = 0;
    int fence = -1; // duplicated
};

class Side {
  public:
    // stretch: bytes between the pages of tensors, so that both sides are laid out differently.
    Side(std::string name, uint64_t instance, uint64_t stretch, const ShardConfig &config, uint32_t slots);
    ~Side();

    // Fills the tensors: what prefill computed.
    void fill(uint64_t seed);
    uint8_t *page(const Tensor &tensor, uint32_t index);
    std::vector<uint8_t> bytes(const Tensor &tensor, uint32_t index);

    // An instance of a transport with a lane on the shard, under a name that is the options' too: "memory?depth=2".
    struct Loaded {
        std::shared_ptr<Transport> transport;
        std::vector<kvf_region *> regions; // by index in the layout
        std::shared_ptr<bool> closed = std::make_shared<bool>(false);
    };
    Loaded &load(const std::string &spec);
    // False when the lane is not closed yet; it will be, by the time that unloaded() says so.
    bool unload(const std::string &spec);
    bool unloaded(const std::string &spec) const { return *loaded_.at(spec).closed; }

    // What callers do. Deadlines are a bootstrap of 10 s, 20 s of waiting and 30 s of transfer unless given.
    RoomHandle open_sender(uint64_t room_id, uint32_t receivers = 1);
    RoomHandle open_receiver(uint64_t room_id, uint64_t prefix_tokens = 0);
    void accept(RoomHandle room, std::vector<PageList> lists);
    void send(RoomHandle room, std::vector<PageList> lists, const ChunkShape &shape = {});
    void abort(RoomHandle room, const std::string &reason = "cancelled");
    int close(RoomHandle room);
    void close_deferred(RoomHandle room);
    // Of what is opened from here on.
    RoomDeadlines deadlines{10 * kSecond, 20 * kSecond, 30 * kSecond};

    // What callers see.
    bool stale(RoomHandle room) const;
    bool knows(RoomHandle room) const;
    RoomWord word(RoomHandle room) const;
    int state(RoomHandle room) const { return word(room).state(); }
    int code(RoomHandle room) const { return word(room).code(); }
    bool quiesced(RoomHandle room) const { return word(room).quiesced(); }
    kvf_report report(RoomHandle room) const;
    std::string message(RoomHandle room) const { return report(room).message; }

    // Gives the shard a message, at this side's time, and checks what it did to the rooms.
    void tell(ToShard &&message);
    bool advance();
    // Tells the shard of fences that have fired; whether there were any.
    bool look_at_fences();

    const std::string name;
    const uint64_t instance;
    uint64_t now = kSecond;
    RoomTable table;
    Shard shard;
    std::vector<ToControl> said; // by the shard, not carried yet
    Layout layout;
    std::map<uint64_t, int> fences; // by room: the descriptors that are watched

    // Everything is over: no rooms, no operations, no deadline, no slot in use.
    void expect_nothing_left();
    // Spoils the memory.
    void expect_only_rooms_wrote();

  private:
    void add_tensor(const TensorName &name, uint64_t page_bytes, uint64_t pages, uint64_t stretch);
    void look();
    void look_at(uint32_t slot, bool announced);
    void check_step(RoomWord before, RoomWord after);
    void reuse_pages(RoomHandle room);

    bool filled_ = false;
    std::map<std::string, Loaded> loaded_;
    std::vector<uint8_t> memory_;
    std::map<uint32_t, RoomWord> words_;                   // by slot, as last seen
    using Pages = std::set<std::pair<uint32_t, uint32_t>>; // (group, page)
    std::map<uint64_t, Pages> accepted_;                   // by room, until it failed and is quiesced
    Pages reused_;                                         // given to others since, so no room may write there
    Pages ever_accepted_;
};

PageList pages(uint32_t group, std::vector<uint32_t> list);
std::vector<uint32_t> range(uint32_t begin, uint32_t count);

} // namespace kvf
