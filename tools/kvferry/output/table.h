// Text in aligned columns, two spaces apart.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

namespace tool {

class Table {
  public:
    enum class Align { left, right };

    explicit Table(std::initializer_list<Align> columns) : columns_(columns) {}

    // Cells that are not given are empty.
    void row(std::vector<std::string> cells);
    void print(std::FILE *out, size_t indent = 0) const;

  private:
    std::vector<Align> columns_;
    std::vector<std::vector<std::string>> rows_;
};

} // namespace tool
