#include "output/table.h"

#include <algorithm>

namespace tool {

void Table::row(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    rows_.push_back(std::move(cells));
}

void Table::print(std::FILE *out, size_t indent) const {
    std::vector<size_t> widths(columns_.size());
    for (const auto &cells : rows_)
        for (size_t i = 0; i < cells.size(); ++i)
            widths[i] = std::max(widths[i], cells[i].size());
    for (const auto &cells : rows_) {
        std::string line(indent, ' ');
        for (size_t i = 0; i < cells.size(); ++i) {
            const std::string padding(widths[i] - cells[i].size(), ' ');
            line += columns_[i] == Align::left ? cells[i] + padding : padding + cells[i];
            line += "  ";
        }
        line.erase(line.find_last_not_of(' ') + 1);
        std::fprintf(out, "%s\n", line.c_str());
    }
}

} // namespace tool
