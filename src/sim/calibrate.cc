#include "src/sim/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <vector>

#include "src/base/check.h"
#include "src/base/median.h"
#include "src/prototxt/escape.h"
#include "src/prototxt/node.h"
#include "src/solver/metrics.h"
#include "src/solver/round_lines.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

constexpr int kPasses = 3;            // vectors that an update reads and writes: src/sync/rule.h
constexpr double kMemory = 10e9;      // bytes a second; ServerCosts' default
constexpr double kSlow = 2;           // a step beyond so many medians is a slow-down
constexpr double kFewestSlow = 0.01;  // share of the steps from which on they are modelled
constexpr double kFewestSteps = 3;    // of a worker, for figures of its own

using StepsByWorker = std::map<int, std::vector<double>>;

struct Run {
  RunHistory history;
  std::vector<RoundRecord> rounds;
  fs::path metrics;

  static Run read(const fs::path& run_dir) {
    Run run;
    run.metrics = fs::is_directory(run_dir) ? run_dir / "metrics.jsonl" : run_dir;
    KINET_CHECK(fs::is_regular_file(run.metrics),
                "--calibrate {}: there is no {}\nhint: the folder of a run of `kinet train`",
                run_dir.string(), run.metrics.string());
    run.history = read_metrics(run.metrics);
    run.rounds = read_rounds(run.metrics);
    return run;
  }

  // In the order of each worker's gradients.
  StepsByWorker steps() const {
    std::map<int, std::map<int64_t, double>> by_seq;
    for (const RoundRecord& r : rounds) {
      for (const RoundRecord::Member& m : r.members) {
        if (m.seconds > 0) by_seq[m.worker][m.seq] = m.seconds;
      }
    }
    StepsByWorker out;
    for (const auto& [worker, steps] : by_seq) {
      for (const auto& [seq, seconds] : steps) out[worker].push_back(seconds);
    }
    return out;
  }
};

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

// Standard deviation over mean.
double variation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return values.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(values.size() - 1)) / mean;
}

// What a StepSettings can say of recorded steps.
struct Fit {
  double mean = 0;               // over workers, without slow-downs
  double task = 0, machine = 0;  // variations
  double slow_share = 0, slow_factor = 1;
  std::map<int, double> own;  // worker -> mean over the mean
  size_t steps = 0;

  explicit Fit(const StepsByWorker& by_worker) {
    std::map<int, std::vector<double>> usual;
    std::vector<double> slow;  // in means of their workers
    for (const auto& [worker, seconds] : by_worker) {
      const double limit = kSlow * median(seconds);
      for (const double s : seconds) {
        if (s <= limit) usual[worker].push_back(s);
      }
      for (const double s : seconds) {
        if (s > limit) slow.push_back(s / mean_of(usual[worker]));
      }
      steps += seconds.size();
    }
    slow_share = static_cast<double>(slow.size()) / static_cast<double>(steps);
    if (slow_share >= kFewestSlow) {
      slow_factor = mean_of(slow);
    } else {  // a few that belong to the spread
      slow_share = 0;
      usual = by_worker;
    }
    spread(usual);
  }

 private:
  void spread(const StepsByWorker& usual) {
    std::vector<double> means;
    double squares = 0, weight = 0;
    for (const auto& [worker, seconds] : usual) {
      means.push_back(mean_of(seconds));
      own[worker] = means.back();
      if (static_cast<double>(seconds.size()) < kFewestSteps) continue;
      const double v = variation_of(seconds);
      const auto n = static_cast<double>(seconds.size());
      squares += n * v * v;
      weight += n;
    }
    mean = mean_of(means);
    machine = variation_of(means);
    task = weight > 0 ? std::sqrt(squares / weight) : 0;
    for (auto& [worker, factor] : own) factor /= mean;
  }
};

std::string compute_text(const Fit& fit) {
  std::string out = fmt::format(
      "compute {{\n  # {} steps of {} workers. Machines differ by {:.3g} of the mean: for another "
      "number of\n  # workers clock: MACHINES machine_variation: {:.3g}, without slow {{ }}.\n"
      "  clock: GAMMA\n  mean: {:.6g}\n  task_variation: {:.4g}\n",
      fit.steps, fit.own.size(), fit.machine, fit.machine, fit.mean, fit.task);
  if (fit.slow_share > 0) {
    out += fmt::format(
        "  # Steps of more than twice their worker's median.\n"
        "  slow_probability: {:.4g}\n  slow_factor: {:.4g}\n",
        fit.slow_share, fit.slow_factor);
  }
  for (const auto& [worker, factor] : fit.own) {
    if (fit.own.size() > 1) {
      out += fmt::format("  slow {{ worker: {} factor: {:.4g} }}\n", worker, factor);
    }
  }
  return out + "}\n";
}

// A run without rounds: seconds of an iteration, less what the first worker has waited.
std::string compute_text(const std::vector<DisplayRecord>& displays, const fs::path& metrics) {
  std::vector<double> steps;
  double before = -1;
  for (const DisplayRecord& d : displays) {
    if (d.seconds < before) before = -1;  // a run that went on
    const double iterations = d.iterations_per_second * (d.seconds - before);
    if (before >= 0 && d.iterations_per_second > 0 && iterations > 0) {
      const double step = 1 / d.iterations_per_second - d.waiting_seconds / iterations;
      if (step > 0) steps.push_back(step);
    }
    before = d.seconds;
  }
  KINET_CHECK(
      !steps.empty(),
      "{}: there are no step times in it\nhint: a run with servers (sync_param {{ servers: 1 "
      "}}) records every gradient; one without needs three displays",
      metrics.string());
  return fmt::format(
      "compute {{\n  # Means of the {} times between displays, without waiting; they "
      "vary by {:.3g}. Single steps\n  # are not in the records of a run without "
      "servers.\n  clock: CONSTANT\n  mean: {:.6g}\n}}\n",
      steps.size(), variation_of(steps), mean_of(steps));
}

std::string network_text(const fs::path& folder) {
  std::string transport;
  const fs::path solver = folder / "solver.prototxt";
  if (fs::is_regular_file(solver)) {
    const ParamNode root = parse_prototxt_file(solver.string());
    const ParamNode* comm = root.find("comm_param");
    const ParamNode* field = comm != nullptr ? comm->find("transport") : nullptr;
    if (field != nullptr) transport = field->text;
  }
  const char* preset = transport == "verbs" ? "fdr" : transport == "tcp" ? "ethernet_10g" : "shm";
  return fmt::format(
      "network {{\n  # Not in the records of a run: `kinet bench` measures latency "
      "and bandwidth. A guess after the\n  # transport ({}).\n  preset: {}\n}}\n",
      transport.empty() ? "auto" : transport, preset);
}

std::string server_text(const Run& run) {
  double seconds = 0, pushes = 0;
  for (const RoundRecord& r : run.rounds) {
    if (!(r.service > 0)) continue;
    seconds += r.service;
    pushes += static_cast<double>(r.members.size());
  }
  if (pushes == 0) return "";
  const double each = seconds / pushes;
  const double bytes = kPasses * 4.0 * static_cast<double>(run.history.start.parameters);
  const double rest = each - bytes / kMemory;
  const double memory = rest >= 0 ? kMemory : bytes / each;
  return fmt::format(
      "server {{\n  # {:.4g} us a push over {:.0f} pushes, {} passes over {} "
      "parameters among them.\n  per_push_us: {:.4g}\n  memory_gbytes: {:.4g}\n}}\n",
      1e6 * each, pushes, kPasses, run.history.start.parameters, 1e6 * std::max(0.0, rest),
      memory / 1e9);
}

std::string events_text(const std::vector<RoundRecord>& rounds) {
  static const std::regex kNews("worker ([0-9]+) (lost|joins)");
  std::string out;
  for (const RoundRecord& r : rounds) {
    for (std::sregex_iterator it(r.note.begin(), r.note.end(), kNews), end; it != end; ++it) {
      out += fmt::format("event {{ kind: {} at: {:.6g} worker: {} }}\n",
                         (*it)[2] == "lost" ? "LEAVE" : "JOIN", r.seconds, (*it)[1].str());
    }
  }
  return out;
}

}  // namespace

std::string calibrate(const fs::path& run_dir) {
  const Run run = Run::read(run_dir);
  const StepsByWorker steps = run.steps();
  fs::path folder = fs::absolute(run.metrics).parent_path();
  const std::string name = folder.filename().string();
  std::string out = fmt::format(
      "# Calibrated from the records of a run: {} workers, {}, batch {}.\nname: {}\nsource: {}\n\n",
      run.history.start.workers, run.history.start.net_name, run.history.start.batch,
      kinet::quoted(name), kinet::quoted("kinet simulate --calibrate " + run_dir.string()));
  out += steps.empty() ? compute_text(run.history.displays, run.metrics) : compute_text(Fit(steps));
  out += "\n" + network_text(folder);
  for (const std::string& part : {server_text(run), events_text(run.rounds)}) {
    if (!part.empty()) out += "\n" + part;
  }
  return out;
}

std::string recorded_steps(const fs::path& run_dir) {
  const Run run = Run::read(run_dir);
  const StepsByWorker steps = run.steps();
  KINET_CHECK(
      !steps.empty(),
      "{}: there are no single steps in it\nhint: a run with servers (sync_param {{ servers: "
      "1 }}) records every gradient",
      run.metrics.string());
  std::string out = "worker,seconds\n";
  for (const auto& [worker, seconds] : steps) {
    for (const double s : seconds) out += fmt::format("{},{:.6g}\n", worker, s);
  }
  return out;
}

}  // namespace kinet
