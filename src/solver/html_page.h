// The frame of a page that stands alone: title, style, foot; no script, no outside file.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kinet {

struct PageHead {
  std::string title, subtitle;
  std::string build;  // build_info_line(), at the foot
};

// `body` is HTML; the head's texts are not.
std::string html_page(const PageHead& head, const std::string& body);

// Name and text of each file, folded, below a heading; "" for none.
std::string html_files(const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace kinet
