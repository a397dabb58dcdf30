// The counters of the control plane. Written by the control thread alone, read by any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvf {

// Name, and what it counts.
#define KVF_CONTROL_COUNTERS(X)                                                                 \
    X(open_connections, "connections at any stage")                                             \
    X(open_links, "peers that rooms can use, or still do after their connection was lost")      \
    X(open_seeks, "rooms that wait for their peer")                                             \
    X(unsent_aborts, "rooms that gave up, whose peer is still sought to be told")               \
    X(open_settles, "lost rooms whose peer has yet to say that nothing of them is in flight")   \
    X(connections_accepted, "")                                                                 \
    X(connections_rejected, "beyond the most at one time, or from one host")                    \
    X(connections_dialed, "")                                                                   \
    X(connections_failed, "dials that came to nothing")                                         \
    X(connections_lost, "ended after they stood")                                               \
    X(handshakes_ready, "")                                                                     \
    X(handshakes_refused, "layouts that do not fit, or no transport")                           \
    X(messages_malformed, "")                                                                   \
    X(messages_out_of_order, "and others that their connection did not allow")                  \
    X(messages_dropped, "for a connection that was gone")                                       \
    X(heartbeats_missed, "")                                                                    \
    X(frames_sent, "")                                                                          \
    X(frames_received, "")                                                                      \
    X(offers_sent, "")                                                                          \
    X(offers_received, "")                                                                      \
    X(news_sent, "")                                                                            \
    X(news_received, "")                                                                        \
    X(aborts_sent, "")                                                                          \
    X(aborts_received, "")                                                                      \
    X(fences_held, "lost peers whose transport said that they can't touch our memory any more") \
    X(fences_retried, "")                                                                       \
    X(bootstrap_failures, "requests to bootstrap servers that failed")

enum class ControlCounter : uint32_t {
#define KVF_COUNTER_ENUM(name, what) name,
    KVF_CONTROL_COUNTERS(KVF_COUNTER_ENUM)
#undef KVF_COUNTER_ENUM
        count
};

class ControlCounters {
  public:
    static constexpr size_t kCount = static_cast<size_t>(ControlCounter::count);

    void add(ControlCounter which, uint64_t n = 1) { set(which, get(which) + n); }
    void set(ControlCounter which, uint64_t value) { at(which).store(value, std::memory_order_relaxed); }
    uint64_t get(ControlCounter which) const {
        return values_[static_cast<size_t>(which)].load(std::memory_order_relaxed);
    }

    // fn(name, value) for each; names are static.
    template <typename Fn>
    void for_each(Fn fn) const {
        static constexpr std::array<const char *, kCount> kNames{
#define KVF_COUNTER_NAME(name, what) #name,
            KVF_CONTROL_COUNTERS(KVF_COUNTER_NAME)
#undef KVF_COUNTER_NAME
        };
        for (size_t i = 0; i < kCount; ++i)
            fn(kNames[i], values_[i].load(std::memory_order_relaxed));
    }

  private:
    std::atomic<uint64_t> &at(ControlCounter which) {
        return values_[static_cast<size_t>(which)];
    }

    std::array<std::atomic<uint64_t>, kCount> values_{};
};

} // namespace kvf
