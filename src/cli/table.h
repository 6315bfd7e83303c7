// A table of text: columns as wide as their widest cell, two spaces between them.
//
//   layer  type         output          parameters
//   conv1  Convolution  64x20x24x24            520
//
// Thread safety: a value type.
#pragma once

#include <string>
#include <vector>

namespace kinet {

class Table {
 public:
  // A heading that begins with '>' is right-aligned, as numbers should be.
  explicit Table(const std::vector<std::string>& headings);

  void add(std::vector<std::string> cells);  // missing cells are empty
  void add_rule();                           // a line of dashes, before totals
  std::string str() const;                   // ends with a line break

 private:
  std::string format(const std::vector<std::string>& cells) const;

  std::vector<bool> right_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

}  // namespace kinet
