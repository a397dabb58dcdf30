// The decode side. For each room: take pages, open a receiver and say where the pages go; when the room is at Success,
// read the first token from its metadata and go on from the cache. The prompt is never seen here.

#include <deque>
#include <unordered_map>

#include "generate.h"
#include "role.h"

namespace llama {
namespace {

struct Request {
    uint64_t id;
    uint32_t prompt_tokens;
    Limit limit;
};

struct Room {
    uint64_t id = 0;
    kvf_room handle = {}; // zero once the transfer is over
    uint32_t prompt_tokens = 0;
    Limit limit = {};
    std::vector<uint32_t> pages; // for the prompt and for all that may be generated
    std::vector<uint32_t> slot;  // the one index of its metadata
    Token last = 0;              // token told
    uint32_t count = 0;          // of tokens told
    bool accepted = false;
    bool told = false; // the end of its transfer, to the router
};

class Decode {
  public:
    explicit Decode(const RoleOptions &options)
        : prefill_(options.bootstrap),
          model_(options.model),
          engine_(KVF_ROLE_DECODE, options, model_.config()),
          free_pages_(options.pages, options.seed),
          free_slots_(options.slots, options.seed) {}

    void run() {
        tell("ready");
        while (!requests_.ended() || !waiting_.empty() || !rooms_.empty()) {
            requests_.wait(engine_.get(), wait_ms());
            while (const auto line = requests_.next())
                take_request(*line);
            engine_.take_events([this](const kvf_event &event) { take_event(event); });
            decode_one_token_each();
            // Behind all that gives pages back, so that none are free while rooms wait for them in poll.
            full_ = false;
            accept_rooms();
            open_rooms();
        }
        engine_.close();
    }

  private:
    // Not at all while rooms decode; a moment when kvferry was full and something is to be tried again.
    int wait_ms() const { return !decoding_.empty() ? 0 : full_ ? 1 : -1; }

    void take_request(const std::string &line) {
        Words words(line);
        if (words.word() != "room")
            fail("expected a room, not the line \"%.80s\"", line.c_str());
        const auto id = words.number<uint64_t>();
        const auto prompt_tokens = words.number<uint32_t>();
        const auto max_tokens = words.number<uint32_t>();
        const Request request{id, prompt_tokens, {max_tokens, words.number<Token>()}};
        const auto most = static_cast<uint64_t>(engine_.pool().pages()) * kPageTokens;
        if (prompt_tokens == 0 || max_tokens == 0 || uint64_t{prompt_tokens} + max_tokens - 1 > most)
            fail(
                "room %llu has %u tokens and may get %u more, expected at least one of each and what the pool's %llu "
                "hold",
                static_cast<unsigned long long>(id), prompt_tokens, max_tokens, static_cast<unsigned long long>(most));
        waiting_.push_back(request);
    }

    // In the order they came: a later and smaller one must not keep the pages from an earlier one for ever.
    void open_rooms() {
        while (!waiting_.empty() && open_room(waiting_.front()))
            waiting_.pop_front();
    }

    // Takes all the pages that the room can come to need, so that no room has to wait for pages while it decodes.
    bool open_room(const Request &request) {
        const uint32_t pages = pages_for(positions_for(request.prompt_tokens, request.limit.max_tokens));
        if (free_pages_.free() < pages || free_slots_.free() == 0)
            return false;
        Room room;
        const int status = kvf_room_open_receiver(engine_.get(), prefill_.c_str(), request.id, nullptr, &room.handle);
        if (status == KVF_ERR_AGAIN || status == KVF_ERR_FULL) {
            full_ = true;
            return false;
        }
        check(status, "kvf_room_open_receiver");
        room.id = request.id;
        room.prompt_tokens = request.prompt_tokens;
        room.limit = request.limit;
        room.pages = free_pages_.take(pages);
        room.slot = free_slots_.take(1);
        accept(rooms_.emplace(room.id, std::move(room)).first->second);
        return true;
    }

    // Those that kvferry had no place for when they were opened.
    void accept_rooms() {
        for (auto &[id, room] : rooms_) {
            if (!room.accepted)
                accept(room);
        }
    }

    void accept(Room &room) {
        const kvf_index_list lists[] = {
            {kCacheGroup, pages_for(room.prompt_tokens), room.pages.data()},
            {kSlotGroup, 1, room.slot.data()},
        };
        const int status = kvf_room_accept(engine_.get(), room.handle, lists, std::size(lists), sizeof(kvf_index_list));
        if (status == KVF_ERR_AGAIN) {
            full_ = true;
            return;
        }
        // A room that failed already takes no pages; its event says why.
        if (status != KVF_ERR_STATE)
            check(status, "kvf_room_accept");
        room.accepted = true;
    }

    void take_event(const kvf_event &event) {
        const auto found = rooms_.find(event.room_id);
        if (found == rooms_.end() || found->second.handle.value != event.room.value ||
            (event.state != KVF_STATE_FAILED && event.state != KVF_STATE_SUCCESS))
            return;
        Room &room = found->second;
        if (!room.told)
            tell(report_line(engine_.report(room.handle)));
        room.told = true;
        // Failed may come first: until the room is quiesced its pages may still be written.
        if ((event.flags & KVF_ROOM_QUIESCED) == 0)
            return;
        check(kvf_room_close(engine_.get(), room.handle), "kvf_room_close");
        room.handle = {};
        if (event.state == KVF_STATE_SUCCESS)
            begin_decoding(room);
        else
            end(room);
    }

    void begin_decoding(Room &room) {
        const Slot &slot = engine_.slot(room.slot.front());
        if (slot.room_id != room.id || slot.prompt_tokens != room.prompt_tokens)
            refuse(room, text("its metadata is of room %llu with %u tokens, expected %u tokens",
                              static_cast<unsigned long long>(slot.room_id), slot.prompt_tokens, room.prompt_tokens));
        else if (slot.digest != engine_.pool().digest(room.pages, room.prompt_tokens))
            refuse(room, "its keys and values are not those that prefill sent");
        else
            tell_token(room, slot.first_token);
    }

    void refuse(const Room &room, const std::string &why) {
        tell(text("wrong %llu %s", static_cast<unsigned long long>(room.id), why.c_str()));
        end(room);
    }

    // A token of each room in turn, as a batch would give them.
    void decode_one_token_each() {
        std::deque<uint64_t> batch;
        batch.swap(decoding_);
        for (const uint64_t id : batch) {
            Room &room = rooms_.at(id);
            model_.forward(room.last, room.prompt_tokens + room.count - 1, engine_.pool(), room.pages);
            tell_token(room, model_.next());
        }
    }

    void tell_token(Room &room, Token token) {
        tell(text("token %llu %d", static_cast<unsigned long long>(room.id), token));
        room.last = token;
        ++room.count;
        if (!is_last(token, room.count, room.limit)) {
            decoding_.push_back(room.id);
            return;
        }
        tell(text("done %llu", static_cast<unsigned long long>(room.id)));
        end(room);
    }

    void end(const Room &room) {
        free_pages_.give_back(room.pages);
        free_slots_.give_back(room.slot);
        rooms_.erase(room.id);
    }

    std::string prefill_; // where its engine is found
    Llama model_;
    CacheEngine engine_;
    IndexAllocator free_pages_, free_slots_;
    Requests requests_;
    std::deque<Request> waiting_;              // for pages
    std::unordered_map<uint64_t, Room> rooms_; // receiving or decoding
    std::deque<uint64_t> decoding_;            // in turn
    bool full_ = false;                        // kvferry said "try again"
};

} // namespace
} // namespace llama

int main(int argc, char **argv) {
    return llama::run_role(argc, argv, "kvferry-llama-decode",
                           [](const llama::RoleOptions &options) { llama::Decode(options).run(); });
}
