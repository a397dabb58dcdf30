// What a benchmark found out, beside what it is compared to, and the two ways to print it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "output/text.h"

namespace bench {

using tool::check;
using tool::fail;
using tool::text;

struct Figure {
    std::string name;
    double value = 0;
    std::string unit;
    std::string peer; // what it is compared to, measured in the same run; "": nothing
    std::optional<double> peer_value;
    // Of value and peer_value. Where the two were measured in turn it is the median of the ratios of neighbours, which
    // what else the machine does disturbs less than it does either median.
    std::optional<double> ratio;
};

// Prints figures to standard output: as JSON each at once on a line of its own, else as a table at the end.
class Report {
  public:
    explicit Report(bool as_json) : as_json_(as_json) {}

    void add(Figure figure);
    // value against peer_value, where there are no pairs.
    void add(std::string name, double value, std::string unit, std::string peer, double peer_value);
    void add(std::string name, double value, std::string unit);

    void finish() const;

  private:
    bool as_json_;
    std::vector<Figure> figures_;
};

// A line on standard error on how far it is.
[[gnu::format(printf, 1, 2)]] void progress(const char *format, ...);

} // namespace bench
