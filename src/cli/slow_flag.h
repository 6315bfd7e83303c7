// --slow W:F[,W:F...]: worker W takes F times as long for a gradient. For trying out how a run gets
// on with a slow machine; changes when things happen, never what a worker computes.
#pragma once

#include <map>
#include <string>

namespace CLI {
class App;
}

namespace kinet {

struct SlowFlag {
  std::string text;
  std::map<int, double> factors;  // by number of the worker, filled by check()

  // Throws Error for what does not fit `workers` workers.
  void check(int workers);
  double factor(int worker) const;  // 1 for those not named
};

void add_slow_flag(CLI::App& app, SlowFlag& flag);

}  // namespace kinet
