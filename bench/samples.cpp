#include "samples.h"

#include <cmath>

namespace bench {

double clock_overhead_ns() {
    std::vector<double> samples(2001);
    for (double &sample : samples) {
        const uint64_t before = now_ns();
        sample = static_cast<double>(now_ns() - before);
    }
    return median(std::move(samples));
}

double percentile(std::vector<double> samples, double share) {
    if (samples.empty())
        return 0;
    const double rank = std::ceil(share * static_cast<double>(samples.size()));
    const size_t index = std::min(samples.size() - 1, static_cast<size_t>(std::max(rank, 1.0)) - 1);
    std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(index), samples.end());
    return samples[index];
}

void Pairs::add(double value, double peer) {
    values_.push_back(value);
    peers_.push_back(peer);
    ratios_.push_back(value / peer);
}

} // namespace bench
