// Which k, and which rule for k, is good on which cluster: real gradients, modelled clocks.
//
// usage: build/bench/k_rule_study_bench [name=value ...]
//   rules='fixed,k=8;momentum'   rules to compare, by ';'; a rule's fields of sync_param by ','
//   clocks=alike,machines,...    see k_rule_cluster.h
//   seeds=1,2,3  workers=32 batch=16 rate=0.1 momentum=0.9 warm_up=20 drop_at=0 time=160
//   target=0.84                  accuracy whose time is reported
//   data=FOLDER                  Fashion-MNIST's four gzipped files
//   trace=1                      every test of every run
// Columns: time to the target (mean of the seeds; -(n) when only n seeds reached it), accuracy and
// loss on the test images at the end (mean of the last five tests), mean k, and at half time the
// relative noise T/(N G2) and the gap (1+gamma) |v|/|theta| in per cent.
// What came out stands in docs/k_rules.md.
#include <fmt/core.h>

#include <map>

#include "bench/k_rule_cluster.h"
#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

using Settings = std::map<std::string, std::string>;

Settings read_settings(int argc, char** argv) {
  Settings out = {{"rules", "fixed,k=1;fixed,k=8;fixed,k=16;fixed;goodput_lag;momentum"},
                  {"clocks", "alike,machines,slowdowns"},
                  {"seeds", "1,2,3"},
                  {"workers", "32"},
                  {"batch", "16"},
                  {"rate", "0.1"},
                  {"momentum", "0.9"},
                  {"warm_up", "20"},
                  {"drop_at", "0"},
                  {"time", "160"},
                  {"target", "0.84"},
                  {"trace", "0"},
                  {"data", "/usr/share/datasets/fashion-mnist"}};
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t at = text.find('=');
    KINET_CHECK(at != std::string::npos && out.count(text.substr(0, at)),
                "'{}' is not a setting of this program, see the head of its source", text);
    out[text.substr(0, at)] = text.substr(at + 1);
  }
  return out;
}

std::unique_ptr<KController> make_controller(const std::string& rule) {
  static const MessageType type{"sync_param", "", k_rule_fields()};
  std::string text;
  for (const std::string& part : split_list(rule)) {
    const size_t at = part.find('=');
    text += at == std::string::npos ? "k_rule: '" + part + "' "
                                    : part.substr(0, at) + ": " + part.substr(at + 1) + " ";
  }
  Diagnostics diagnostics;
  const ParamNode node = parse_prototxt(text, rule, diagnostics);
  validate(node, type, "sync_param", diagnostics);
  diagnostics.throw_if_any();
  return make_k_controller(Params(&node, &type));
}

// Time of the first three tests in a row whose mean reaches the target.
double time_to(const std::vector<StudyPoint>& points, double target) {
  for (size_t i = 2; i < points.size(); ++i) {
    const double mean = (points[i].accuracy + points[i - 1].accuracy + points[i - 2].accuracy) / 3;
    if (mean >= target) return points[i].time;
  }
  return -1;
}

struct Outcome {
  int runs = 0, reached = 0;
  double time = 0, final = 0, loss = 0, k = 0, noise = 0, gap = 0;

  void add(const std::vector<StudyPoint>& points, double target) {
    ++runs;
    if (const double t = time_to(points, target); t >= 0) {
      ++reached;
      time += t;
    }
    const size_t n = points.size(), last = std::min<size_t>(5, n);
    for (size_t i = n - last; i < n; ++i) {
      final += points[i].accuracy / static_cast<double>(last);
      loss += points[i].loss / static_cast<double>(last);
    }
    double weighted = 0, from = 0;
    for (const StudyPoint& p : points) {
      weighted += p.k * (p.time - from);
      from = p.time;
    }
    k += from > 0 ? weighted / from : 0;
    if (n > 0) {
      noise += points[n / 2].noise;
      gap += 100 * points[n / 2].gap;
    }
  }

  std::string line() const {
    const std::string reach =
        reached == runs ? fmt::format("{:7.1f}", time / runs) : fmt::format("  -({})", reached);
    return fmt::format("{:>8} {:7.3f} {:7.3f} {:6.1f} {:8.2f} {:6.2f}", reach, final / runs,
                       loss / runs, k / runs, noise / runs, gap / runs);
  }
};

void run(const Settings& settings) {
  Problem problem(settings.at("data"));
  StudySettings s;
  s.workers = std::stoi(settings.at("workers"));
  s.batch = std::stoi(settings.at("batch"));
  s.rate = std::stod(settings.at("rate"));
  s.momentum = std::stod(settings.at("momentum"));
  s.warm_up = std::stod(settings.at("warm_up"));
  s.drop_at = std::stod(settings.at("drop_at"));
  s.time = std::stod(settings.at("time"));
  const double target = std::stod(settings.at("target"));
  std::string rules = settings.at("rules");
  for (const std::string& clock : split_list(settings.at("clocks"))) {
    s.clock = clock;
    fmt::print("{:<44} {:>8} {:>7} {:>7} {:>6} {:>8} {:>6}\n", clock, "time", "final", "loss", "k",
               "noise", "gap");
    for (size_t from = 0; from < rules.size();) {
      const size_t to = std::min(rules.find(';', from), rules.size());
      const std::string rule = rules.substr(from, to - from);
      from = to + 1;
      Outcome outcome;
      for (const std::string& seed : split_list(settings.at("seeds"))) {
        s.seed = std::stoull(seed);
        const std::unique_ptr<KController> controller = make_controller(rule);
        const std::vector<StudyPoint> points = StudyRun(problem, s, *controller).run();
        outcome.add(points, target);
        if (settings.at("trace") == "0") continue;
        for (const StudyPoint& p : points) {
          fmt::print("  {:8.2f} loss {:.4f} accuracy {:.4f} k {:3d} noise {:9.3g} gap {:.3g}\n",
                     p.time, p.loss, p.accuracy, p.k, p.noise, p.gap);
        }
      }
      fmt::print("  {:<42} {}\n", rule, outcome.line());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace kinet

int main(int argc, char** argv) {
  try {
    kinet::run(kinet::read_settings(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
