#include "engine/transports.h"

#include "control/control.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <new>
#include <utility>

namespace kvf {

constexpr uint64_t kForever = UINT64_MAX;

Transports::~Transports() {
    for (Loaded &loaded : loaded_)
        deregister_from(&loaded, 0);
}

Status Transports::on_control(const std::function<Status(Control &)> &call) {
    Status status = fail(KVF_ERR_CLOSED, "the engine is closing");
    control_.call([&](Control &control) {
        try {
            status = call(control);
        } catch (const std::bad_alloc &) {
            status = Status(KVF_ERR_NO_MEMORY, {});
        }
    });
    return status;
}

std::vector<Transports::Loaded>::iterator Transports::find(const std::string &name) {
    return std::find_if(loaded_.begin(), loaded_.end(),
                        [&](const Loaded &loaded) { return loaded.transport->name() == name; });
}

Status Transports::register_regions(Loaded *loaded, const Layout &layout) {
    const size_t before = loaded->regions.size();
    loaded->regions.reserve(layout.regions.size());
    for (size_t i = before; i < layout.regions.size(); ++i) {
        const MemoryRegion &memory = layout.regions[i];
        kvf_region_params params{};
        params.memory_kind = memory.memory_kind;
        params.device = memory.device;
        params.fd = memory.fd;
        params.base = memory.base;
        params.length = memory.length;
        params.fd_offset = memory.fd_offset;
        kvf_region *region = nullptr;
        Status registered = on_control([&](Control &) { return loaded->transport->register_region(params, &region); });
        if (!registered.ok()) {
            control_.call([&](Control &) { deregister_from(loaded, before); });
            return registered;
        }
        loaded->regions.push_back(region);
    }
    return {};
}

void Transports::deregister_from(Loaded *loaded, size_t first) {
    while (loaded->regions.size() > first) {
        loaded->transport->deregister_region(loaded->regions.back());
        loaded->regions.pop_back();
    }
}

// Sends a message to every shard and waits for their answers. False when they have not all come in time; they may
// still.
template <typename Message>
bool Transports::ask_shards(const std::shared_ptr<Transport> &transport, uint64_t timeout_ms, Status *result) {
    auto answer = std::make_shared<std::promise<Status>>();
    std::future<Status> future = answer->get_future();
    auto tally = std::make_shared<Tally>(static_cast<uint32_t>(shards_.size()),
                                         [answer](Status status) { answer->set_value(std::move(status)); });
    for (const auto &shard : shards_)
        shard->push(Message{transport, tally});
    if (timeout_ms != kForever && future.wait_for(std::chrono::milliseconds(timeout_ms)) != std::future_status::ready)
        return false;
    *result = future.get();
    return true;
}

Status Transports::load(const std::string &name, const std::string &options,
                        const std::shared_ptr<const Layout> &layout) {
    if (find(name) != loaded_.end())
        return fail(KVF_ERR_EXISTS, "the transport %s is loaded already", name.c_str());
    Loaded loaded;
    Status opened = Transport::open(name, options, instance_, &loaded.transport);
    if (!opened.ok())
        return opened;
    opened = register_regions(&loaded, *layout);
    if (opened.ok())
        ask_shards<TransportUp>(loaded.transport, kForever, &opened);
    if (opened.ok())
        opened = on_control([&](Control &control) { return control.add_transport(loaded.transport, loaded.regions); });
    if (opened.ok())
        loaded_.push_back(std::move(loaded));
    else
        (void)close(&loaded);
    return opened;
}

Status Transports::close(Loaded *loaded) {
    Status closed;
    ask_shards<TransportDown>(loaded->transport, kForever, &closed);
    control_.call([&](Control &) {
        deregister_from(loaded, 0);
        loaded->transport.reset();
    });
    return closed;
}

Status Transports::begin_unload(const std::string &name) {
    const auto found = find(name);
    if (found == loaded_.end())
        return fail(KVF_ERR_NO_TRANSPORT, "the transport %s is not loaded", name.c_str());
    if (!std::exchange(found->leaving, true))
        control_.call([&](Control &control) { control.remove_transport(name); });
    return {};
}

size_t Transports::peers_of(const std::string &name) {
    size_t peers = 0;
    control_.call([&](Control &control) { peers = control.peers_of(name); });
    return peers;
}

Status Transports::end_unload(const std::string &name) {
    const auto found = find(name);
    if (found == loaded_.end() || !found->leaving)
        return {};
    Status closed = close(&*found);
    loaded_.erase(found);
    return closed;
}

Status Transports::publish(const std::shared_ptr<const Layout> &next) {
    std::vector<size_t> before;
    std::vector<TransportRegions> regions;
    Status published;
    for (Loaded &loaded : loaded_) {
        before.push_back(loaded.regions.size());
        published = register_regions(&loaded, *next);
        if (!published.ok())
            break;
        regions.push_back({loaded.transport, loaded.regions});
    }
    if (published.ok())
        published = on_control([&](Control &control) { return control.set_layout(next, regions); });
    if (!published.ok())
        control_.call([&](Control &) {
            for (size_t i = 0; i < before.size(); ++i)
                deregister_from(&loaded_[i], before[i]);
        });
    return published;
}

} // namespace kvf
