#include "src/solver/worker_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/text.h"

namespace kinet {
namespace {

constexpr double kSlow = 2;  // times the median

int64_t computed(const WorkerBook& book) { return book.applied + book.dropped + book.bad; }

// Seconds of a gradient; 0: there was none.
double step_seconds(const WorkerBook& book) {
  return computed(book) == 0 ? 0 : book.compute_seconds / static_cast<double>(computed(book));
}

std::string duration(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string line_of(size_t worker, const WorkerBook& book) {
  std::string line = fmt::format("worker {}", worker);
  if (book.name.empty()) return line + " never came";
  line += fmt::format(" ({}): {} gradients applied", book.name, with_commas(book.applied));
  if (book.dropped > 0) line += fmt::format(", {} dropped as too late", with_commas(book.dropped));
  if (book.cancelled > 0) line += fmt::format(", {} given up", with_commas(book.cancelled));
  if (book.bad > 0) line += fmt::format(", {} not finite", with_commas(book.bad));
  if (computed(book) > 0) line += fmt::format(", {} each", duration(step_seconds(book)));
  const double all = book.waited_seconds + book.compute_seconds;
  if (all > 0)
    line += fmt::format(", waiting {:.0f} % of its time", 100 * book.waited_seconds / all);
  if (book.losses > 0)
    line +=
        fmt::format(", lost {}", book.losses == 1 ? "once" : fmt::format("{} times", book.losses));
  return line;
}

}  // namespace

std::vector<std::string> worker_lines(std::span<const WorkerBook> books) {
  std::vector<std::string> out;
  std::vector<double> steps;
  for (size_t w = 0; w < books.size(); ++w) {
    out.push_back(line_of(w, books[w]));
    if (computed(books[w]) > 0) steps.push_back(step_seconds(books[w]));
  }
  if (steps.size() < 2) return out;
  const auto middle = steps.begin() + static_cast<int64_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), middle, steps.end());  // of two: the faster one
  for (size_t w = 0; w < books.size(); ++w) {
    if (computed(books[w]) == 0 || step_seconds(books[w]) <= kSlow * *middle) continue;
    out.push_back(fmt::format("worker {} ({}) is slow: {} a gradient, the median worker takes {}",
                              w, books[w].name, duration(step_seconds(books[w])),
                              duration(*middle)));
  }
  return out;
}

}  // namespace kinet
