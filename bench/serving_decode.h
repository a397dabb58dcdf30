// The decode side of the benchmark of serving: its pool, the rooms of a round, and what it finds in their pages.
#pragma once

#include <string>
#include <vector>

#include "channel.h"
#include "serving_plan.h"

namespace bench {

// What a round of rooms came to.
struct Round {
    uint64_t bytes = 0;                              // that all rooms have together
    uint64_t successes = 0;                          // of the decode side
    uint64_t sender_successes = 0, sender_bytes = 0; // as the prefill side has it
    std::vector<double> latencies_ms;                // each room's, from its send to Success here
    double seconds = 0;                              // from the first send to the last Success
    uint64_t resident_before = 0, resident_peak = 0; // beyond the pools
    uint64_t sender_resident_before = 0, sender_resident_peak = 0;
};

class ServingDecode {
  public:
    // source: the prefill side's pool, as it is mapped here.
    ServingDecode(const ServingPlan &plan, const char *source, Channel &channel);

    // Makes every page of this side's pool wrong.
    void spoil();
    Round run(uint64_t round);
    // How many pages are not what they must be, of those that the round's rooms brought and of those that they left
    // alone since spoil(). all: the others must still be spoilt; for when this was the only round since then.
    uint64_t wrong_pages(uint64_t round, bool all) const;

    // What the round's rooms move, of a long round a part, moved by memcpy with so many threads: GB/s. The pages come
    // from one page further on, so that what is left behind is wrong.
    double copy(uint64_t round, uint32_t threads) const;

  private:
    std::vector<kvf_room> open(const std::vector<std::vector<uint32_t>> &pages, uint64_t first_id);
    std::vector<uint64_t> await_ends(const std::vector<kvf_room> &rooms, uint64_t first_id, uint64_t *successes);
    void copy_room(const std::vector<uint32_t> &pages) const;

    ServingPlan plan_;
    PageMap map_;
    const char *source_;
    Channel &channel_;
    Engine engine_;
    char *pool_;
    std::string address_;
    uint64_t next_id_ = 1;
};

} // namespace bench
