// Times and what is made of many of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <vector>

namespace bench {

// Nanoseconds of CLOCK_MONOTONIC, the same clock for all processes of a machine.
inline uint64_t now_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// What two readings right after each other are apart, to be taken off what is measured between two.
double clock_overhead_ns();

// The sample that the share of all samples is at or below. 0 of none.
double percentile(std::vector<double> samples, double share);

inline double median(std::vector<double> samples) {
    return percentile(std::move(samples), 0.5);
}

// A thing and what it is compared to, measured in turn.
class Pairs {
  public:
    void add(double value, double peer);
    double value() const { return median(values_); }
    double peer() const { return median(peers_); }
    // The median of value / peer of each pair.
    double ratio() const { return median(ratios_); }
    size_t count() const { return values_.size(); }
    const std::vector<double> &values() const { return values_; }

  private:
    std::vector<double> values_, peers_, ratios_;
};

} // namespace bench
