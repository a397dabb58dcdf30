// An engine and its rooms as the benchmarks use them: a failed call throws, a full inbox is waited out.
#pragma once

#include <kvferry/kvferry.h>

#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "figure.h"
#include "samples.h"

namespace bench {

// Until then whatever the other side or a shard has to do is done, on a busy machine too.
constexpr uint32_t kPatienceMs = 60'000;

kvf_engine_config engine_config(uint32_t role, const char *name, uint32_t shards = 0);

// Pages of one layer; the order of a bench's tensors is its own business.
kvf_tensor tensor(uint32_t group, uint32_t layer, void *base, uint64_t page_count, uint64_t page_bytes);

class Engine {
  public:
    // With the transport shm, or none for transport_options of nullptr.
    explicit Engine(const kvf_engine_config &config, const char *transport_options = "");
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;
    ~Engine();

    kvf_engine *get() const { return engine_; }
    std::string address() const { return kvf_engine_address(engine_); }

    // Pages of the kernel's that the transport can map at the peer; each is written to once. The engine's.
    char *allocate(size_t bytes);
    void register_tensors(std::span<const kvf_tensor> tensors);

    kvf_room open_sender(uint64_t id);
    kvf_room open_receiver(const std::string &prefill, uint64_t id);
    void accept(kvf_room room, std::span<const uint32_t> pages, uint32_t group = 0);
    void send(kvf_room room, std::span<const uint32_t> pages, uint32_t group = 0, uint32_t flags = KVF_CHUNK_LAST);
    void close(kvf_room room);

    uint32_t state(kvf_room room) const;
    // Until the state is at least that; a room that fails throws its reason.
    void wait_for(kvf_room room, uint32_t state) const;
    void wait_success(kvf_room room) const;
    kvf_report report(kvf_room room) const;
    // Why it failed, as far as this side knows.
    std::string why(kvf_room room) const;

  private:
    kvf_engine *engine_ = nullptr;
};

// Calls until it is not KVF_ERR_AGAIN. Returns how often it was.
template <typename Call>
uint64_t until_taken(const char *name, Call call) {
    const uint64_t give_up = now_ns() + uint64_t{kPatienceMs} * 1'000'000;
    uint64_t again = 0;
    int status = call();
    for (; status == KVF_ERR_AGAIN && now_ns() < give_up; status = call()) {
        ++again;
        const timespec pause{0, 20'000};
        nanosleep(&pause, nullptr);
    }
    check(status, name);
    return again;
}

// Writes to each page of the kernel's once.
void touch(char *memory, size_t bytes);

} // namespace bench
