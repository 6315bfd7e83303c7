#include "src/sim/step_trace.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/prototxt/node.h"
#include "src/prototxt/value.h"

namespace kinet {
namespace {

constexpr size_t kShownErrors = 20;  // of a file that is something else altogether

std::vector<std::string> words_of(std::string line) {
  for (char& c : line) {
    if (c == ',' || c == ';' || c == '\r') c = ' ';
  }
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

struct Reader {
  std::map<int64_t, std::vector<double>> found;
  bool begun = false;  // with lines of times

  // What is wrong with the line, or "".
  std::string add(const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    if (words.empty() || words.front().starts_with('#')) return "";
    if (!begun && words.front() == "worker") return "";
    begun = true;
    int64_t worker = 0;
    const bool two = words.size() == 2;
    const bool numbered = two && parse_integer(words[0], worker) == IntegerText::kInteger &&
                          worker >= 0 && worker <= std::numeric_limits<int>::max();
    const std::optional<double> seconds = two ? parse_real(words[1]) : std::nullopt;
    if (!numbered || !seconds) {
      return fmt::format("'{}' is no step time\nhint: a line is worker,seconds: 0,0.0123", line);
    }
    if (!std::isfinite(*seconds) || *seconds <= 0) {
      return fmt::format("a step takes more than 0 seconds, not {}", words[1]);
    }
    found[worker].push_back(*seconds);
    return "";
  }
};

}  // namespace

StepTrace StepTrace::read(const std::string& path) {
  Reader reader;
  Diagnostics diagnostics;
  Position where{std::make_shared<const std::string>(path), 0, 1};
  std::istringstream in(read_file(path));
  for (std::string line; std::getline(in, line);) {
    ++where.line;
    const std::string problem = reader.add(line);
    if (!problem.empty()) diagnostics.error(where, problem);
    if (diagnostics.errors().size() == kShownErrors) break;
  }
  diagnostics.throw_if_any();
  KINET_CHECK(!reader.found.empty(),
              "{}: there are no step times in it\nhint: a line for each gradient: worker,seconds",
              path);
  StepTrace trace;
  trace.path = path;
  for (auto& [worker, seconds] : reader.found) trace.by_worker.push_back(std::move(seconds));
  return trace;
}

size_t StepTrace::times() const {
  size_t count = 0;
  for (const std::vector<double>& seconds : by_worker) count += seconds.size();
  return count;
}

double StepTrace::mean() const {
  double sum = 0;
  for (const std::vector<double>& seconds : by_worker) {
    for (const double s : seconds) sum += s;
  }
  return sum / static_cast<double>(times());
}

}  // namespace kinet
