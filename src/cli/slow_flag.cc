#include "src/cli/slow_flag.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <sstream>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kSlowest = 1000;

template <class T>
bool read(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

void add_slow_flag(CLI::App& app, SlowFlag& flag) {
  app.add_option("--slow", flag.text,
                 "with several workers: 1:5,2:1.5 makes worker 1 take 5 times as long for a "
                 "gradient, worker 2 1.5 times");
}

void SlowFlag::check(int workers) {
  factors.clear();
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t colon = entry.find(':');
    int worker = -1;
    double factor = 0;
    const bool numbers = colon != std::string::npos && read(entry.substr(0, colon), worker) &&
                         read(entry.substr(colon + 1), factor);
    KINET_CHECK(numbers, "--slow {}: '{}' is not WORKER:FACTOR\nhint: --slow 1:5", text, entry);
    KINET_CHECK(worker >= 0 && worker < workers, "--slow {}: there is no worker {} of {}{}", text,
                worker, workers, workers == 1 ? "\nhint: --workers 2 starts two" : "");
    KINET_CHECK(factor >= 1 && factor <= kSlowest,
                "--slow {}: a factor lies between 1 and {:g}, not {:g}", text, kSlowest, factor);
    KINET_CHECK(factors.emplace(worker, factor).second, "--slow {}: worker {} is named twice", text,
                worker);
  }
}

double SlowFlag::factor(int worker) const {
  const auto it = factors.find(worker);
  return it == factors.end() ? 1 : it->second;
}

}  // namespace kinet
