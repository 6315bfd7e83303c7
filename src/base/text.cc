#include "src/base/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace kinet {
namespace {

int lower(char c) { return std::tolower(static_cast<unsigned char>(c)); }

// Edit distance in halves: another case costs 1, any other change of one letter 2, and so do two
// neighbours that changed places ("trian").
int edit_distance(const std::string& a, const std::string& b) {
  const size_t columns = b.size() + 1;
  std::vector<int> before(columns), last(columns), row(columns);
  for (size_t j = 0; j < columns; ++j) last[j] = 2 * static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = 2 * static_cast<int>(i);
    for (size_t j = 1; j < columns; ++j) {
      const char x = a[i - 1], y = b[j - 1];
      const int replace = x == y ? 0 : lower(x) == lower(y) ? 1 : 2;
      row[j] = std::min({last[j] + 2, row[j - 1] + 2, last[j - 1] + replace});
      const bool swapped = i > 1 && j > 1 && x == b[j - 2] && a[i - 2] == y;
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 2);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

bool same_but_for_case(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  std::string best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(name, candidate);
    if (best.empty() || distance < best_distance) best = candidate, best_distance = distance;
  }
  // At most a third of the letters may differ, or the guess would only confuse; a change of case
  // alone is always near enough.
  const int length = static_cast<int>(std::max(name.size(), best.size()));
  const bool near = best_distance * 3 <= 2 * length || same_but_for_case(name, best);
  return near ? best : std::string();
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? std::string() : fmt::format(" (did you mean '{}'?)", nearest);
}

std::string human_bytes(uint64_t bytes) {
  static const char* const kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1000 && unit < 4) value /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number < 0 ? -number : number);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, ",");
  return number < 0 ? "-" + digits : digits;
}

std::string human_seconds(double seconds) {
  constexpr double kCentury = 100 * 365.25 * 24 * 3600;  // whoever waits longer has made a mistake
  if (seconds > kCentury) return "over 100 years";
  const auto s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{}h {:02d}m", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{}m {:02d}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

// Every byte but continuation bytes.
int text_columns(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string wrap_words(const std::string& text, int width) {
  if (text_columns(text) <= width) return text;
  std::string out, line;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && text_columns(line) + 1 + text_columns(word) > width) {
      out += line + "\n";
      line = " ";  // and the space before the word
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line;
}

std::string join(const std::vector<std::string>& parts, const std::string& separator) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : separator) + part;
  return out;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, comma - begin);
    while (!part.empty() && part.front() == ' ') part.erase(0, 1);
    while (!part.empty() && part.back() == ' ') part.pop_back();
    parts.push_back(std::move(part));
    begin = comma + 1;
  }
  return parts;
}

}  // namespace kinet
