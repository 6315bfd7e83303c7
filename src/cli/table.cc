// Rows are kept until the widths of all columns are known.
#include "src/cli/table.h"

#include <algorithm>

namespace kinet {
namespace {

// Columns of UTF-8 text: every byte but continuation bytes.
size_t columns(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

Table::Table(const std::vector<std::string>& headings) {
  std::vector<std::string> names;
  for (const std::string& heading : headings) {
    right_.push_back(heading.starts_with(">"));
    names.push_back(right_.back() ? heading.substr(1) : heading);
  }
  widths_.resize(names.size(), 0);
  add(std::move(names));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(widths_.size());
  for (size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], columns(cells[i]));
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::string Table::format(const std::vector<std::string>& cells) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string space(widths_[i] - columns(cells[i]), ' ');
    line += (i == 0 ? "" : "  ") + (right_[i] ? space + cells[i] : cells[i] + space);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string Table::str() const {
  size_t width = 0;
  for (const size_t w : widths_) width += w + 2;
  std::string out;
  for (const auto& row : rows_) {
    out += row.empty() ? std::string(width - 2, '-') + "\n" : format(row);
  }
  return out;
}

}  // namespace kinet
