// The surroundings of one Control whose peers are all strangers: connections, bootstrap servers and shards as far as it
// sees them, with the checks of what it does to them.
#pragma once

#include "control/codec.h"
#include "control/control_port.h"
#include "holds.h"

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvf::fuzz {

class EnginePort final : public ControlPort {
  public:
    struct Inquiry {
        enum Kind : uint8_t { topology, rank, dp_rank, registration } kind;
        uint64_t request = 0;
    };

    void dial(uint64_t connection, const std::string &) override {
        holds(open.insert(connection).second, "a connection's number is not used again");
        dialed.push_back(connection);
    }
    void send(uint64_t connection, std::span<const uint8_t> frame) override {
        holds(open.contains(connection), "nothing is sent on a connection that is gone");
        WireMessage message;
        holds(decode(frame, &message), "what is sent can be read");
    }
    void close(uint64_t connection) override {
        holds(open.erase(connection) == 1, "a connection is closed once");
        std::erase(dialed, connection);
    }

    void to_shard(uint32_t, ToShard &&message) override {
        if (const auto *offer = std::get_if<OfferCame>(&message)) {
            holds(offer->link && offer->routes, "an offer comes over a link");
            holds(open.contains(offer->link->id), "an offer comes over a connection that stands");
            offered.insert(offer->link);
        } else if (const auto *found = std::get_if<PeerFound>(&message)) {
            holds(found->link && open.contains(found->link->id), "a peer that is found is connected");
            this->found.insert(found->link);
        } else if (const auto *news = std::get_if<NewsCame>(&message)) {
            holds(news->link != 0, "news come over a link");
        } else if (const auto *lost = std::get_if<LinkLost>(&message)) {
            holds(lost->link != nullptr, "a link is lost once");
            if (this->found.contains(lost->link))
                this->lost.insert(lost->link);
        }
    }

    void ask_topology(uint64_t request, const std::string &) override {
        inquiries.push_back({Inquiry::topology, request});
    }
    void ask_rank(uint64_t request, const std::string &, const RankPlace &) override {
        inquiries.push_back({Inquiry::rank, request});
    }
    void ask_dp_rank(uint64_t request, const std::string &, uint64_t) override {
        inquiries.push_back({Inquiry::dp_rank, request});
    }
    void register_rank(uint64_t request, const std::string &, const RankRecord &) override {
        inquiries.push_back({Inquiry::registration, request});
    }

    void run_on_control(std::function<void()> fn) override { later.push_back(std::move(fn)); }
    void run_later() {
        while (!later.empty()) {
            const std::function<void()> fn = std::move(later.front());
            later.pop_front();
            fn();
        }
    }

    std::set<uint64_t> open;      // at any stage
    std::vector<uint64_t> dialed; // not connected yet
    std::deque<Inquiry> inquiries;
    std::set<LinkRef> found, offered; // held by shards, for receivers and for senders
    std::set<LinkRef> lost;           // of the former
    std::deque<std::function<void()>> later;
};

} // namespace kvf::fuzz
