#include "figure.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "output/json.h"
#include "output/table.h"

namespace bench {
namespace {

// Four digits that count, and no exponent.
std::string rounded(double value) {
    const double size = std::fabs(value);
    if (size >= 1000 || value == std::floor(value))
        return text("%.0f", value);
    return text("%.*f", size >= 100 ? 1 : size >= 10 ? 2 : 3, value);
}

std::string rounded(const std::optional<double> &value) {
    return value ? rounded(*value) : std::string();
}

} // namespace

void Report::add(Figure figure) {
    if (as_json_) {
        tool::Json json;
        json.object().string("name", figure.name).number("value", figure.value).string("unit", figure.unit);
        if (figure.peer.empty())
            json.null("peer").null("peer_value").null("ratio");
        else
            json.string("peer", figure.peer)
                .number("peer_value", figure.peer_value.value_or(NAN))
                .number("ratio", figure.ratio.value_or(NAN));
        std::printf("%s\n", json.end_object().line().c_str());
        std::fflush(stdout);
    }
    figures_.push_back(std::move(figure));
}

void Report::add(std::string name, double value, std::string unit, std::string peer, double peer_value) {
    add(Figure{std::move(name), value, std::move(unit), std::move(peer), peer_value, value / peer_value});
}

void Report::add(std::string name, double value, std::string unit) {
    add(Figure{std::move(name), value, std::move(unit), {}, {}, {}});
}

void Report::finish() const {
    if (as_json_)
        return;
    using enum tool::Table::Align;
    tool::Table table{left, right, left, right, left};
    table.row({"", "", "", "ratio", "to"});
    for (const Figure &figure : figures_) {
        std::string peer = figure.peer;
        if (figure.peer_value)
            peer += ": " + rounded(figure.peer_value) + " " + figure.unit;
        table.row({figure.name, rounded(figure.value), figure.unit, rounded(figure.ratio), peer});
    }
    table.print(stdout);
}

void progress(const char *format, ...) {
    va_list values;
    va_start(values, format);
    std::fputs("kvferry bench: ", stderr);
    std::vfprintf(stderr, format, values);
    std::fputc('\n', stderr);
    va_end(values);
}

} // namespace bench
