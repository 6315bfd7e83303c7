// CaffeLog: the lines of Caffe's own log, as far as its readers (parse_log, plot scripts, DIGITS
// and others) look for them. tests/cli_log_format_test.cc holds their regular expressions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/base/text.h"
#include "src/cli/train_log.h"

namespace kinet {
namespace {

// Six significant digits, as a C++ stream prints them: a small learning rate is not 0.000000.
std::string number(double value) { return fmt::format("{:.6g}", value); }

std::string output_line(const char* net, size_t index, const OutputValue& output) {
  std::string line =
      fmt::format("    {} net output #{}: {} = {}", net, index, output.name, number(output.value));
  if (output.loss_weight != 0) {
    line += fmt::format(" (* {} = {} loss)", number(output.loss_weight),
                        number(output.loss_weight * output.value));
  }
  return line;
}

}  // namespace

std::vector<std::string> start_lines(const StartRecord& r) {
  std::vector<std::string> out;
  out.push_back(r.seed_chosen ? fmt::format("Seed: {} (from the clock; --seed {} repeats this run)",
                                            r.seed, r.seed)
                              : fmt::format("Seed: {}", r.seed));
  out.push_back(fmt::format("Threads: {}", r.threads));
  if (r.batch > 0) {
    std::string data = fmt::format("Data: batch {}", r.batch);
    if (r.iter_size > 1) data += fmt::format(" x iter_size {}", r.iter_size);
    if (r.workers > 1) data += fmt::format(" x {} workers", r.workers);
    const int64_t images = r.batch * r.iter_size * r.workers;
    if (images != r.batch) data += fmt::format(" = {}", images);
    if (r.train_items > 0) {
      data += fmt::format(" of {} training items; {:.6g} iterations an epoch",
                          with_commas(r.train_items), r.iterations_per_epoch);
    }
    out.push_back(data);
  }
  if (!r.iteration_rule.empty()) out.push_back("Iteration: " + r.iteration_rule);
  std::string begin = "Start: from the beginning";
  if (!r.weights.empty()) begin += " with the weights of " + join(r.weights, ", ");
  if (!r.resumed_from.empty()) begin = "Start: resumed from " + r.resumed_from;
  out.push_back(fmt::format("{}; iterations {} to {}, optimizer history {}", begin,
                            with_commas(r.iteration), with_commas(r.max_iterations), r.history));
  return out;
}

void CaffeLog::on_start(const StartRecord& r) {
  workers_ = r.workers;
  for (const std::string& line : start_lines(r)) line_(line);
  line_(fmt::format("Solving {}", r.net_name));
  line_(fmt::format("Learning Rate Policy: {}", r.lr_policy));
}

void CaffeLog::on_display(const DisplayRecord& r) {
  const double rate = std::isfinite(r.iterations_per_second) ? r.iterations_per_second : 0;
  line_(fmt::format("Iteration {} ({} iter/s, {}s/{} iters), loss = {}", r.iteration, number(rate),
                    number(r.seconds_since_last), r.since_last, number(r.loss)));
  for (size_t i = 0; i < r.outputs.size(); ++i) line_(output_line("Train", i, r.outputs[i]));
  if (rounds_.rounds > 0) {
    tell_rounds(r);
  } else if (workers_ > 1 && r.seconds_since_last > 0) {
    line_(fmt::format("    {} workers: {} images/s, {:.0f} % of the time waiting for each other",
                      workers_, with_commas(std::llround(r.images_per_second)),
                      100 * r.waiting_seconds / r.seconds_since_last));
  }
  line_(fmt::format("Iteration {}, lr = {}", r.iteration, number(r.learning_rate)));
}

void CaffeLog::on_round(const RoundRecord& r) {
  rounds_.add(r, std::max(0.0, r.seconds - last_round_));
  last_round_ = r.seconds;
}

// "    4 workers: 25,312 images/s, k 2.5, lag 1.2 (largest 4), waiting 3 %, 0 %, 12 %, 40 %"
void CaffeLog::tell_rounds(const DisplayRecord& r) {
  std::string line = fmt::format("    {} workers: {} images/s, k {:.3g}, lag {:.3g} (largest {})",
                                 workers_, with_commas(std::llround(r.images_per_second)),
                                 rounds_.mean_k(), rounds_.mean_lag(), rounds_.largest_lag);
  std::vector<std::string> shares;
  for (const double seconds : rounds_.waiting) {
    const double share = rounds_.seconds > 0 ? 100 * seconds / rounds_.seconds : 0;
    shares.push_back(fmt::format("{:.0f} %", share));
  }
  if (!shares.empty()) line += ", waiting " + join(shares, ", ");
  if (rounds_.dropped > 0) line += fmt::format(", {} dropped", with_commas(rounds_.dropped));
  line_(line);
  rounds_ = {};
}

void CaffeLog::on_test(const TestRecord& r) {
  line_(fmt::format("Iteration {}, Testing net (#{})", r.iteration, r.net));
  for (size_t i = 0; i < r.outputs.size(); ++i) line_(output_line("Test", i, r.outputs[i]));
  if (!r.coverage.empty() && coverage_told_.insert(r.net).second) line_("Note: " + r.coverage);
}

void CaffeLog::on_snapshot(int64_t, const std::string& path) {
  std::filesystem::path model(path);
  model.replace_extension(".caffemodel");
  line_("Snapshotting to binary proto file " + model.string());
  line_("Snapshotting solver state to binary proto file " + path);
}

void CaffeLog::on_note(const std::string& text) { line_("Note: " + text); }

void CaffeLog::on_warning(const std::string& text) { warning_(text); }

void CaffeLog::on_finish(const FinishRecord& r) {
  line_(fmt::format("Iteration {}, loss = {}", r.iteration, number(r.loss)));
  if (r.reason != "max_iter") line_("Ended by: " + r.reason);
  line_(r.reason == "interrupted" ? "Optimization stopped early." : "Optimization Done.");
}

}  // namespace kinet
