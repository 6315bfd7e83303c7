#include "src/cli/train_parts.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/options.h"
#include "src/cli/train_log.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

// Only what went wrong, and how it ended.
class QuietLog : public SolverObserver {
 public:
  explicit QuietLog(Console& console) : console_(console) {}
  void on_warning(const std::string& text) override { console_.warning(text); }
  void on_finish(const FinishRecord& r) override {
    std::string model = "none";
    if (!r.last_snapshot.empty()) {
      model = fs::path(r.last_snapshot).replace_extension(".caffemodel").string();
    }
    console_.line(fmt::format("Ended at iteration {} ({}), loss {:.4g}; model: {}", r.iteration,
                              r.reason, r.loss, model));
  }

 private:
  Console& console_;
};

void say(const std::string& text) { std::fprintf(stderr, "kinet: %s\n", text.c_str()); }

// "147 M": three digits and a unit.
std::string short_count(double count) {
  if (count >= 1e9) return fmt::format("{:.3g} G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.3g} M", count / 1e6);
  return with_commas(static_cast<int64_t>(count));
}

}  // namespace

void WorkerLog::on_warning(const std::string& text) { say("warning: " + text); }
void WorkerLog::on_snapshot(int64_t, const std::string& path) { say("snapshot: " + path); }

std::unique_ptr<SolverObserver> make_train_log(Console& console, bool quiet) {
  if (quiet) return std::make_unique<QuietLog>(console);
  const LineSink line = [&console](const std::string& text) { console.line(text); };
  const LineSink warning = [&console](const std::string& text) { console.warning(text); };
  if (console.mode() == Console::Mode::kLog) return std::make_unique<CaffeLog>(line, warning);
  return std::make_unique<LiveLog>(
      LiveLog::Screen{line, warning, [&console](const std::string& text) { console.live(text); },
                      [&console] { return console.width(); }});
}

std::string net_line(Net& net) {
  std::string line = fmt::format("Net: {}, {} layers, {} parameters", net.name(), net.layer_count(),
                                 with_commas(net.parameter_count()));
  if (net.macs() > 0) line += fmt::format(", {} multiply-adds a batch", short_count(net.macs()));
  return line + fmt::format(", {} of activations", human_bytes(net.activation_bytes()));
}

FolderGuard::FolderGuard(fs::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  made_here_ = fs::symlink_status(folder_, ignored).type() == fs::file_type::not_found;
}

FolderGuard::~FolderGuard() {
  std::error_code ignored;
  if (made_here_ && !kept_ && fs::is_directory(folder_, ignored)) fs::remove(folder_, ignored);
}

uint64_t seed_of(const std::string& text) {
  int64_t seed = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seed);
  KINET_CHECK(error == std::errc() && stop == end && seed >= 0,
              "--seed {}: a seed is a whole number from 0 to {}", text,
              std::numeric_limits<int64_t>::max());
  return static_cast<uint64_t>(seed);
}

void add_flag(const std::string& flag, const std::string& value, std::string& out) {
  if (!value.empty()) out += " " + flag + " " + shell_word(value);
}

}  // namespace kinet
