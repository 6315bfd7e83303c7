// LiveLog: one line that stays at the foot of the terminal, and a line that remains for each test.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/text.h"
#include "src/cli/train_log.h"

namespace kinet {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Seconds kRedraw{0.1};      // ten times a second: quick enough for an eye, free of cost
constexpr Seconds kMeasure{1.0};     // images/s is the mean of at least this long
constexpr Seconds kEtaAfter{0.5};    // before that an estimate would jump about
constexpr double kLossMemory = 0.9;  // the shown loss is a running mean: single batches jump

std::string outputs_text(const TestRecord& r) {
  constexpr size_t kMaxShown = 6;  // a per-class output would fill the screen
  std::vector<std::string> parts;
  for (const OutputValue& o : r.outputs) parts.push_back(fmt::format("{} {:.4f}", o.name, o.value));
  const bool more = parts.size() > kMaxShown;
  if (more) parts.resize(kMaxShown);
  return join(parts, "  ") + (more ? " ..." : "");
}

}  // namespace

std::string live_line(const LiveState& s, int width) {
  const double share = s.max_iterations > 0 ? 100.0 * s.iteration / s.max_iterations : 0;
  std::vector<std::string> parts{fmt::format("{:3.0f}% {}/{}", std::floor(share),
                                             with_commas(s.iteration),
                                             with_commas(s.max_iterations))};
  if (s.epoch >= 0) parts.push_back(fmt::format("epoch {:.2f}", s.epoch));
  parts.push_back(fmt::format("loss {:.4f}", s.loss));
  if (!s.score.empty()) parts.push_back(s.score);
  if (s.images_per_second > 0) {
    parts.push_back(fmt::format("{} images/s", with_commas(std::llround(s.images_per_second))));
  }
  if (s.seconds_left >= 0) parts.push_back("ETA " + human_seconds(s.seconds_left));
  // One column stays free: a full line would make some terminals wrap.
  std::string line = parts[0].substr(0, std::max(width - 1, 0));
  for (size_t i = 1; i < parts.size(); ++i) {
    if (text_columns(line) + 2 + text_columns(parts[i]) > width - 1) break;
    line += "  " + parts[i];
  }
  return line;
}

void LiveLog::wrapped(const std::string& text) { screen_.line(wrap_words(text, screen_.width())); }

void LiveLog::on_start(const StartRecord& r) {
  for (const std::string& line : start_lines(r)) wrapped(line);
  wrapped(fmt::format("Training {} with {}, learning rate policy {}; Ctrl-C stops with a snapshot",
                      r.net_name, r.solver_type, r.lr_policy));
  start_ = r;
  state_.iteration = measured_iteration_ = r.iteration;
  state_.max_iterations = r.max_iterations;
  began_ = measured_ = Clock::now();
  drawn_ = began_ - std::chrono::seconds(1);
}

void LiveLog::measure(Clock::time_point now) {
  const Seconds since = now - measured_;
  if (since >= kMeasure) {
    const double images = static_cast<double>((state_.iteration - measured_iteration_) *
                                              start_.batch * start_.iter_size * start_.workers);
    state_.images_per_second = images / since.count();
    measured_ = now;
    measured_iteration_ = state_.iteration;
  }
  // The mean over the whole run: it holds the tests and snapshots that are still to come, too.
  const Seconds run = now - began_;
  const auto done = static_cast<double>(state_.iteration - start_.iteration);
  if (run >= kEtaAfter && done > 0) {
    const auto left = static_cast<double>(state_.max_iterations - state_.iteration);
    state_.seconds_left = std::max(0.0, run.count() / done * left);
  }
}

void LiveLog::on_iteration(int64_t iteration, double loss) {
  const bool first = state_.iteration == start_.iteration;
  state_.loss = first ? loss : kLossMemory * state_.loss + (1 - kLossMemory) * loss;
  state_.iteration = iteration;
  if (start_.iterations_per_epoch > 0) {
    state_.epoch = static_cast<double>(iteration) / start_.iterations_per_epoch;
  }
  const Clock::time_point now = Clock::now();
  if (now - drawn_ < kRedraw) return;
  drawn_ = now;
  measure(now);
  screen_.live(live_line(state_, screen_.width()));
}

// `display` of the solver file says how often a line of its own is wanted beside the live one.
void LiveLog::on_display(const DisplayRecord& r) {
  screen_.line(fmt::format("iteration {}: loss {:.4f}  rate {:.6g}", with_commas(r.iteration),
                           r.loss, r.learning_rate));
}

void LiveLog::on_test(const TestRecord& r) {
  const std::string net = r.net == 0 ? "" : fmt::format(" net {}", r.net);
  std::string line =
      fmt::format("iteration {}: test{}  {}", with_commas(r.iteration), net, outputs_text(r));
  if (r.items > 0) line += fmt::format("  ({} items, {:.1f}s)", with_commas(r.items), r.seconds);
  screen_.line(line);
  if (!r.coverage.empty() && coverage_told_.insert(r.net).second) wrapped("note: " + r.coverage);
  for (const OutputValue& o : r.outputs) {
    if (r.net != 0 || o.loss_weight != 0) continue;
    state_.score = fmt::format("{} {:.4f}", o.name, o.value);
    break;
  }
  measured_ = Clock::now();  // the test's time is not training time
  measured_iteration_ = state_.iteration;
}

void LiveLog::on_snapshot(int64_t iteration, const std::string& path) {
  screen_.line(fmt::format("iteration {}: snapshot {}", with_commas(iteration), path));
}

void LiveLog::on_note(const std::string& text) { wrapped("note: " + text); }

void LiveLog::on_warning(const std::string& text) { screen_.warning(text); }

void LiveLog::on_finish(const FinishRecord& r) {
  screen_.line(fmt::format("Ended at iteration {} after {} ({}); loss {:.4f}",
                           with_commas(r.iteration), human_seconds(r.seconds), r.reason, r.loss));
}

}  // namespace kinet
