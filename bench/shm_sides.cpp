// The pools, and the prefill side with the memcpy that it is compared to.
#include "shm_sides.h"

#include <cstring>
#include <optional>

#include "random.h"

namespace bench {

ShmSide::ShmSide(const ShmPlan &plan, uint32_t role)
    : engine_(engine_config(role, role == KVF_ROLE_PREFILL ? "prefill" : "decode")) {
    std::vector<kvf_tensor> tensors;
    for (uint32_t group = 0; group < plan.page_bytes.size(); ++group) {
        if (plan.own())
            own_.push_back(std::make_unique<OwnPool>(plan.pool_bytes, plan.kernel_pages()));
        pools_.push_back(plan.own() ? own_.back()->data() : engine_.allocate(plan.pool_bytes));
        const auto count = static_cast<uint32_t>(plan.pool_bytes / plan.page_bytes[group]);
        pages_.push_back(shuffled(count, group * 2 + role));
        tensors.push_back(tensor(group, 0, pools_.back(), count, plan.page_bytes[group]));
    }
    engine_.register_tensors(tensors);
}

namespace {

class PrefillSide {
  public:
    PrefillSide(const ShmPlan &plan, std::string_view target, Channel &channel)
        : plan_(plan), channel_(channel), side_(plan, KVF_ROLE_PREFILL) {
        if (plan.own()) {
            own_target_.emplace(plan.pool_bytes, plan.kernel_pages());
            target_ = own_target_->data();
        } else {
            mapped_target_.emplace(target);
            target_ = mapped_target_->data();
        }
        for (const size_t bytes : plan.page_bytes)
            to_.push_back(shuffled(static_cast<uint32_t>(plan.pool_bytes / bytes), bytes));
        channel_.say("address " + side_.engine().address());
    }

    void send(uint32_t group, uint64_t id) {
        Engine &engine = side_.engine();
        const kvf_room room = engine.open_sender(id);
        engine.wait_for(room, KVF_STATE_WAITING);
        const uint64_t begin = now_ns();
        engine.send(room, side_.pages(group), group);
        engine.wait_success(room);
        channel_.say("sent " + join({begin}));
        engine.close(room);
    }

    // The pages that a room takes, in the same order, into a pool of the same kind of memory: the other process's that
    // is mapped here, or where nobody else can map it, one of this process.
    void copy(size_t group) {
        const size_t bytes = plan_.page_bytes.at(group);
        const std::vector<uint32_t> &from = side_.pages(group);
        const uint64_t begin = now_ns();
        for (size_t i = 0; i < from.size(); ++i)
            std::memcpy(target_ + to_[group][i] * bytes, side_.pool(group) + from[i] * bytes, bytes);
        channel_.say("copied " + join({now_ns() - begin}));
    }

  private:
    ShmPlan plan_;
    Channel &channel_;
    std::optional<SharedPool> mapped_target_;
    std::optional<OwnPool> own_target_;
    char *target_ = nullptr;
    ShmSide side_;
    std::vector<std::vector<uint32_t>> to_;
};

} // namespace

void serve_shm(Channel &channel) {
    const auto told = numbers(channel.hear("begin"));
    ShmPlan plan;
    plan.memory = static_cast<PoolMemory>(told.at(0));
    plan.pool_bytes = told.at(1);
    PrefillSide prefill(plan, join({told.at(2), told.at(3)}), channel);
    obey(channel,
         {
             {"send", [&](const auto &order) { prefill.send(static_cast<uint32_t>(order.at(0)), order.at(1)); }},
             {"copy", [&](const auto &order) { prefill.copy(order.at(0)); }},
         });
}

} // namespace bench
