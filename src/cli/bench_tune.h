// --autotune: tries settings one by one, keeps what helps, prints the best as a comm_param block.
//
// Coordinate search: for each knob in turn all its values, with the best of the others; a value is
// taken when its score is better by more than 2 %, so that noise does not choose.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/cli/bench_ranks.h"

namespace kinet {

struct Knob {
  std::string name;                 // "tcp.streams", or a flag of the bench itself: "--piece"
  std::vector<std::string> values;  // the first is the default
};

struct TuneResult {
  std::vector<std::pair<std::string, std::string>> chosen;  // knob, value; those that help
  double first = 0, best = 0;                               // scores, larger is better
};

// `score`: of the settings (knob, value) given. Prints a line for each try.
TuneResult tune(
    const std::vector<Knob>& knobs,
    const std::function<double(const std::vector<std::pair<std::string, std::string>>&)>& score);

// What can be tuned of a transport: its numeric and yes/no fields, around their defaults.
std::vector<Knob> transport_knobs(const std::string& transport);

// "comm_param {\n  transport: \"tcp\"\n  tcp {\n    streams: 4\n  }\n}\n" of the comm fields
// chosen.
std::string comm_param_block(const std::string& transport, const TuneResult& result);

// Appends the flags that all tries have in common, then the settings of one.
void add_settings(std::vector<std::string>& words, const BenchFlags& flags,
                  const std::vector<std::pair<std::string, std::string>>& settings);

// Runs this program as `kinet ARGUMENTS --json FILE` and returns what it wrote; "" when it failed.
std::string run_and_read_json(std::vector<std::string> arguments, int workers);

}  // namespace kinet
