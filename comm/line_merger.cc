#include "comm/line_merger.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>

namespace kinet {
namespace {

constexpr size_t kLongestLine = 65536;  // bytes; a longer one is printed in pieces

// A warning as kinet prints it: "warning: ..." on a terminal, else behind glog's prefix
// "W1129 17:40:35.123456 4711 file.cc:1] ", of which only the text is the same in all ranks.
bool is_warning(const std::string& line, std::string& text) {
  if (line.starts_with("warning: ")) {
    text = line;
    return true;
  }
  const bool glog = line.size() > 5 && (line[0] == 'W' || line[0] == 'E' || line[0] == 'F') &&
                    std::isdigit(static_cast<unsigned char>(line[1])) != 0 &&
                    std::isdigit(static_cast<unsigned char>(line[4])) != 0 && line[5] == ' ';
  const size_t end = line.find("] ");
  if (!glog || end == std::string::npos) return false;
  text = (line[0] == 'W' ? "warning: " : "error: ") + line.substr(end + 2);
  return true;
}

}  // namespace

std::string ranks_prefix(const std::set<Rank>& ranks, int size) {
  if (static_cast<int>(ranks.size()) == size && size > 1)
    return fmt::format("[all {} ranks] ", size);
  std::string text;
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first, after = std::next(first);
    while (after != ranks.end() && *after == *last + 1) last = after++;
    if (!text.empty()) text += ", ";
    text += *first == *last ? std::to_string(*first) : fmt::format("{}-{}", *first, *last);
    first = after;
  }
  return fmt::format("[rank{} {}] ", ranks.size() == 1 ? "" : "s", text);
}

LineMerger::LineMerger(int ranks, bool verbose, TextSink out, TextSink err)
    : ranks_(ranks), verbose_(verbose), out_(std::move(out)), err_(std::move(err)) {}

void LineMerger::add(Rank rank, Stream stream, const std::string& bytes, double now) {
  std::string& text = unfinished_[{rank, stream}];
  text += bytes;
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    take_line(rank, stream, text.substr(begin, end - begin), now);
  }
  text.erase(0, begin);
  if (text.size() > kLongestLine) take_line(rank, stream, std::exchange(text, ""), now);
}

void LineMerger::end(Rank rank, double now) {
  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
    const std::string rest = std::exchange(unfinished_[{rank, stream}], "");
    if (!rest.empty()) take_line(rank, stream, rest, now);
  }
}

void LineMerger::take_line(Rank rank, Stream stream, const std::string& line, double now) {
  std::string warning;
  if (stream == Stream::kErr) {
    hold(rank, line, now);
  } else if (rank == 0) {
    out_(line + "\n");
  } else if (verbose_) {
    out_(fmt::format("[rank {}] {}\n", rank, line));
  } else if (is_warning(line, warning)) {
    hold(rank, warning, now);
  }
}

// A rank that says the same twice means it twice.
void LineMerger::hold(Rank rank, const std::string& line, double now) {
  for (Held& held : held_) {
    if (held.line == line && held.ranks.insert(rank).second) return;
  }
  held_.push_back({line, {rank}, now});
}

double LineMerger::next_release() const {
  if (held_.empty()) return std::numeric_limits<double>::infinity();
  const Held& first = held_.front();
  const bool of_all = static_cast<int>(first.ranks.size()) == ranks_;
  return of_all ? first.since : first.since + hold_;
}

void LineMerger::release(double now) {
  for (; next_release() <= now; held_.pop_front()) print(held_.front());
}

void LineMerger::finish() {
  for (; !held_.empty(); held_.pop_front()) print(held_.front());
}

void LineMerger::print(const Held& held) {
  const bool only_first = held.ranks == std::set<Rank>{0};
  err_((only_first ? "" : ranks_prefix(held.ranks, ranks_)) + held.line + "\n");
}

}  // namespace kinet
