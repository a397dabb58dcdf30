// The prefill side of the benchmark of serving: opens the rooms of a round, waits until all of them know where their
// pages go, and hands all chunks over at once.
#include "resident.h"
#include "second_process.h"
#include "serving_plan.h"
#include "shared_pool.h"

namespace bench {
namespace {

class PrefillSide {
  public:
    PrefillSide(const ServingPlan &plan, std::string_view pool, Channel &channel)
        : plan_(plan),
          map_(plan),
          channel_(channel),
          pool_(pool),
          engine_(engine_config(KVF_ROLE_PREFILL, "prefill", plan.shards)) {
        engine_.register_tensors(plan.tensors(pool_.data()));
        channel_.say("address " + engine_.address());
    }

    void open(uint64_t round, uint64_t first_id) {
        watch_ = std::make_unique<ResidentWatch>();
        pages_.clear();
        for (const auto &pages : map_.rooms_of(round)) {
            pages_.push_back(map_.sources(pages));
            rooms_.push_back(engine_.open_sender(first_id++));
        }
        for (const kvf_room room : rooms_)
            engine_.wait_for(room, KVF_STATE_WAITING);
        channel_.say("waiting");
    }

    void send() {
        std::vector<uint64_t> sent_ns;
        sent_ns.reserve(rooms_.size());
        for (size_t i = 0; i < rooms_.size(); ++i) {
            sent_ns.push_back(now_ns());
            engine_.send(rooms_[i], pages_[i]);
        }
        channel_.say("sent " + join(sent_ns));
    }

    // Says how many ended in Success, and what the rooms of this round took of memory.
    void close() {
        uint64_t successes = 0;
        uint64_t bytes = 0;
        for (const kvf_room room : rooms_) {
            check(kvf_room_wait(engine_.get(), room, kPatienceMs, nullptr), "kvf_room_wait");
            const kvf_report report = engine_.report(room);
            successes += report.state == KVF_STATE_SUCCESS ? 1 : 0;
            bytes += report.bytes;
            if (report.state != KVF_STATE_SUCCESS)
                progress("prefill side: %s", engine_.why(room).c_str());
            check(kvf_room_close_deferred(engine_.get(), room), "kvf_room_close_deferred");
        }
        rooms_.clear();
        watch_->stop();
        channel_.say("closed " + join({successes, bytes, watch_->before(), watch_->peak()}));
    }

  private:
    ServingPlan plan_;
    PageMap map_;
    Channel &channel_;
    SharedPool pool_;
    Engine engine_;
    std::vector<kvf_room> rooms_;
    std::vector<std::vector<uint32_t>> pages_;
    std::unique_ptr<ResidentWatch> watch_;
};

} // namespace

void serve_serving(Channel &channel) {
    const ServingPlan plan = ServingPlan::from(numbers(channel.hear("plan")));
    PrefillSide prefill(plan, channel.hear("pool"), channel);
    obey(channel, {
                      {"open", [&](const auto &order) { prefill.open(order.at(0), order.at(1)); }},
                      {"send", [&](const auto &) { prefill.send(); }},
                      {"close", [&](const auto &) { prefill.close(); }},
                  });
}

} // namespace bench
