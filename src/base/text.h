// Small text helpers that messages need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kinet {

// The candidate nearest to `name` (edit distance, case counted as a small difference), or "" when
// none is near enough to be what was meant.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

// " (did you mean 'kernel_size'?)" or "".
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates);

std::string human_bytes(uint64_t bytes);    // "431.1 KB", powers of 1000
std::string with_commas(int64_t number);    // "431,080"
std::string human_seconds(double seconds);  // "1h 02m", "3m 20s", "12s", "over 100 years"
// Columns of UTF-8 text on a terminal (letters of one column each).
int text_columns(const std::string& text);
// Line breaks between words, so that no line is wider than `width` where that can be; lines after
// the first are indented by two. A line that fits is left as it is.
std::string wrap_words(const std::string& text, int width);
// "a, b" is {"a", "b"}: parts between commas without the blanks around them; they may be empty.
std::vector<std::string> split_list(const std::string& text);
std::string join(const std::vector<std::string>& parts, const std::string& separator);

}  // namespace kinet
