// The prefill side. For each room: take pages, open a sender, compute the prompt chunk by chunk, enqueue each chunk as
// soon as it is computed, and give the pages back once the room is quiesced.

#include <chrono>
#include <deque>
#include <unordered_map>

#include "role.h"

namespace llama {
namespace {

// Of the clock that kvferry's reports are in.
uint64_t now_ns() {
    return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

struct Request {
    uint64_t id;
    std::vector<Token> prompt;
};

struct Room {
    uint64_t id = 0;
    kvf_room handle = {};
    std::vector<Token> prompt;
    std::vector<uint32_t> pages;
    std::vector<uint32_t> slot; // the one index of its metadata
    uint32_t computed = 0;      // tokens
    uint32_t sent = 0;          // tokens
    uint64_t last_chunk_ns = 0, last_chunk_bytes = 0;
    bool told = false; // its end, to the router
};

class Prefill {
  public:
    explicit Prefill(const RoleOptions &options)
        : model_(options.model),
          engine_(KVF_ROLE_PREFILL, options, model_.config()),
          free_pages_(options.pages, options.seed),
          free_slots_(options.slots, options.seed),
          chunk_tokens_(options.chunk_tokens) {
        if (chunk_tokens_ == 0 || chunk_tokens_ % kPageTokens != 0)
            fail("--chunk-tokens is %u, expected a multiple of %u, the tokens of a page", chunk_tokens_, kPageTokens);
    }

    void run() {
        tell("ready");
        while (!requests_.ended() || !waiting_.empty() || !rooms_.empty()) {
            requests_.wait(engine_.get(), wait_ms());
            while (const auto line = requests_.next())
                take_request(*line);
            engine_.take_events([this](const kvf_event &event) { take_event(event); });
            // Behind all that gives pages back, so that none are free while rooms wait for them in poll.
            full_ = false;
            open_rooms();
            advance_one_room();
        }
        engine_.close();
    }

  private:
    // Not at all while there is a chunk to compute; a moment when kvferry was full and something is to be tried again.
    int wait_ms() const { return full_ ? 1 : computing_.empty() ? -1 : 0; }

    void take_request(const std::string &line) {
        Words words(line);
        if (words.word() != "room")
            fail("expected a room, not the line \"%.80s\"", line.c_str());
        Request request{words.number<uint64_t>(), {}};
        while (!words.empty())
            request.prompt.push_back(words.number<Token>());
        if (request.prompt.empty() || pages_for(request.prompt.size()) > engine_.pool().pages())
            fail("room %llu has a prompt of %zu tokens, expected 1 to what the pool's %u pages hold",
                 static_cast<unsigned long long>(request.id), request.prompt.size(), engine_.pool().pages());
        waiting_.push_back(std::move(request));
    }

    // In the order they came: a later and smaller one must not keep the pages from an earlier one for ever.
    void open_rooms() {
        while (!waiting_.empty() && open_room(waiting_.front()))
            waiting_.pop_front();
    }

    bool open_room(Request &request) {
        if (free_pages_.free() < pages_for(request.prompt.size()) || free_slots_.free() == 0)
            return false;
        Room room;
        const int status = kvf_room_open_sender(engine_.get(), request.id, nullptr, &room.handle);
        if (status == KVF_ERR_AGAIN || status == KVF_ERR_FULL) {
            full_ = true;
            return false;
        }
        check(status, "kvf_room_open_sender");
        room.id = request.id;
        room.pages = free_pages_.take(pages_for(request.prompt.size()));
        room.slot = free_slots_.take(1);
        room.prompt = std::move(request.prompt);
        computing_.push_back(room.id);
        rooms_.emplace(room.id, std::move(room));
        return true;
    }

    // A chunk of the room whose turn it is, so that all rooms go forward together.
    void advance_one_room() {
        if (computing_.empty())
            return;
        Room &room = rooms_.at(computing_.front());
        computing_.pop_front();
        if (room.computed == room.sent)
            compute_chunk(room);
        if (!send_chunk(room) || room.sent < room.prompt.size())
            computing_.push_back(room.id);
    }

    void compute_chunk(Room &room) {
        const auto end = std::min(static_cast<uint32_t>(room.prompt.size()), room.computed + chunk_tokens_);
        for (; room.computed < end; ++room.computed)
            model_.forward(room.prompt[room.computed], room.computed, engine_.pool(), room.pages);
        if (end == room.prompt.size())
            engine_.slot(room.slot.front()) = {room.id, end, model_.next(), engine_.pool().digest(room.pages, end), {}};
    }

    // Enqueues what is computed and not yet sent. False when kvferry was full: to be tried again.
    bool send_chunk(Room &room) {
        const uint32_t first = room.sent / kPageTokens; // chunks are whole pages, but for the last
        const bool last = room.computed == room.prompt.size();
        const kvf_index_list lists[] = {
            {kCacheGroup, pages_for(room.computed) - first, room.pages.data() + first},
            {kSlotGroup, 1, room.slot.data()},
        };
        kvf_chunk chunk = {};
        chunk.struct_size = sizeof chunk;
        chunk.flags = last ? KVF_CHUNK_LAST : 0;
        chunk.lists = lists;
        chunk.list_count = last ? 2 : 1;
        chunk.list_stride = sizeof(kvf_index_list);
        if (last) {
            // Taken before the call: the chunk may have landed when it returns.
            room.last_chunk_ns = now_ns();
            room.last_chunk_bytes = lists[0].count * engine_.pool().bytes_per_page() + sizeof(Slot);
        }
        const int status = kvf_room_send(engine_.get(), room.handle, &chunk);
        if (status == KVF_ERR_AGAIN) {
            full_ = true;
            return false;
        }
        // A room that failed takes no more chunks; its event says why.
        if (status != KVF_ERR_STATE)
            check(status, "kvf_room_send");
        room.sent = status == KVF_ERR_STATE ? static_cast<uint32_t>(room.prompt.size()) : room.computed;
        tell(text("chunk %llu %u", static_cast<unsigned long long>(room.id), room.computed));
        return true;
    }

    void take_event(const kvf_event &event) {
        const auto found = rooms_.find(event.room_id);
        if (found == rooms_.end() || (event.state != KVF_STATE_FAILED && event.state != KVF_STATE_SUCCESS))
            return;
        Room &room = found->second;
        if (!room.told)
            tell_end(room);
        // Failed may come first: until the room is quiesced its pages may still be read.
        if ((event.flags & KVF_ROOM_QUIESCED) == 0)
            return;
        check(kvf_room_close(engine_.get(), room.handle), "kvf_room_close");
        free_pages_.give_back(room.pages);
        free_slots_.give_back(room.slot);
        std::erase(computing_, room.id);
        rooms_.erase(found);
    }

    void tell_end(Room &room) {
        Report report = engine_.report(room.handle);
        report.last_chunk_ns = room.last_chunk_ns;
        report.last_chunk_bytes = room.last_chunk_bytes;
        tell(report_line(report));
        room.told = true;
    }

    Llama model_;
    CacheEngine engine_;
    IndexAllocator free_pages_, free_slots_;
    uint32_t chunk_tokens_;
    Requests requests_;
    std::deque<Request> waiting_;              // for pages
    std::unordered_map<uint64_t, Room> rooms_; // open
    std::deque<uint64_t> computing_;           // rooms with chunks to come, in turn
    bool full_ = false;                        // kvferry said "try again"
};

} // namespace
} // namespace llama

int main(int argc, char **argv) {
    return llama::run_role(argc, argv, "kvferry-llama-prefill",
                           [](const llama::RoleOptions &options) { llama::Prefill(options).run(); });
}
