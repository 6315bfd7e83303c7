// The fields of compute { } in a cluster profile: declared, read, and judged.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/sim/step_times.h"

namespace kinet {
namespace {

using Clock = StepSettings::Clock;

const std::vector<EnumValue>& clock_names() {
  static const std::vector<EnumValue> kNames{{"CONSTANT", 0},
                                             {"GAMMA", 1},
                                             {"MACHINES", 2},
                                             {"EXPONENTIAL", 3},
                                             {"SHIFTED_EXPONENTIAL", 4},
                                             {"PARETO", 5},
                                             {"TRACE", 6}};  // Clock
  return kNames;
}

const MessageType& slow_fields() {
  static const MessageType kType{
      "slow",
      "A worker that is slower (or faster) than the others.",
      {uint_field("worker", "", "its number"),
       float_field("factor", "", "its steps take so many times as long")}};
  return kType;
}

class StepReader {
 public:
  StepReader(const Params& compute, Diagnostics& diagnostics) : p_(compute), out_(diagnostics) {}

  StepSettings read() {
    clock_name_ = p_.get_enum("clock");
    for (const EnumValue& name : clock_names()) {
      if (name.name == clock_name_) s_.clock = static_cast<Clock>(name.number);
    }
    refuse_what_is_not_used();
    read_mean();
    s_.task_variation = number("task_variation", 0, 10);
    s_.machine_variation = number("machine_variation", 0, 10);
    read_tails();
    s_.slow_probability = number("slow_probability", 0, 1);
    s_.slow_factor = number("slow_factor", 1e-3, 1e6);
    for (const Params& slow : p_.messages("slow")) read_slow(slow);
    if (s_.clock == Clock::kTrace) read_trace();
    return s_;
  }

 private:
  // A field that changes nothing would be a surprise.
  void refuse_what_is_not_used() {
    static const std::map<std::string, std::vector<std::string>> kUsers{
        {"task_variation", {"GAMMA", "MACHINES"}},
        {"machine_variation", {"MACHINES"}},
        {"shift", {"SHIFTED_EXPONENTIAL"}},
        {"shape", {"PARETO"}},
        {"trace", {"TRACE"}}};
    for (const auto& [field, users] : kUsers) {
      if (!p_.has(field) || std::find(users.begin(), users.end(), clock_name_) != users.end()) {
        continue;
      }
      out_.error(p_.where(field),
                 fmt::format("clock {} has no {}\nhint: remove the field, or clock: {}",
                             clock_name_, field, join(users, " or ")));
    }
  }

  void read_mean() {
    if (p_.has("mean")) {
      s_.mean = number("mean", 1e-9, 1e9);
    } else if (s_.clock != Clock::kTrace) {
      out_.error(p_.where(),
                 "compute: the mean is missing\nhint: mean: 0.1, the seconds that a "
                 "gradient takes on average");
    }
  }

  void read_tails() {
    s_.shape = p_.get_double("shape");
    if (s_.shape <= 1) {
      out_.error(p_.where("shape"), fmt::format("shape {:g}: a Pareto clock has a mean only with a "
                                                "shape above 1\nhint: 3 has a variance too",
                                                s_.shape));
    }
    if (s_.clock != Clock::kShiftedExponential) return;
    if (!p_.has("shift")) {
      out_.error(p_.where("clock"),
                 "clock SHIFTED_EXPONENTIAL needs a shift: the seconds that "
                 "every step takes at least\nhint: half of the mean");
      return;
    }
    s_.shift = number("shift", 0, 1e9);
    if (s_.mean > 0 && s_.shift >= s_.mean) {
      out_.error(p_.where("shift"), fmt::format("shift {:g}: must be below the mean, which is {:g}",
                                                s_.shift, s_.mean));
    }
  }

  void read_slow(const Params& slow) {
    for (const char* field : {"worker", "factor"}) {
      if (slow.has(field)) continue;
      out_.error(slow.where(),
                 fmt::format("slow: {} is missing\nhint: slow {{ worker: 0 factor: 5 }}", field));
      return;
    }
    const int worker = slow.get_int32("worker");
    const double factor = slow.get_double("factor");
    if (!(factor > 0)) {
      out_.error(slow.where("factor"), fmt::format("factor {:g}: must be above 0", factor));
    }
    if (!s_.slow.emplace(worker, factor).second) {
      out_.error(slow.where("worker"),
                 fmt::format("slow: worker {} is named twice\nhint: keep one of them", worker));
    }
  }

  void read_trace() {
    const std::string written = p_.get_string("trace");
    if (written.empty()) {
      out_.error(p_.where("clock"),
                 "clock TRACE needs a file of step times\nhint: trace: "
                 "\"steps.csv\" with lines worker,seconds");
      return;
    }
    try {
      const std::string path = resolve_path(written, p_.where("trace"));
      s_.trace = std::make_shared<const StepTrace>(StepTrace::read(path));
    } catch (const Error& error) {  // of the file; this adds who asked for it
      out_.error(p_.where("trace"), fmt::format("trace: {}", error.what()));
    }
  }

  double number(const std::string& field, double least, double most) {
    const double value = p_.get_double(field);
    if (value >= least && value <= most) return value;
    out_.error(p_.where(field),
               fmt::format("{} {:g}: must lie between {:g} and {:g}", field, value, least, most));
    return least;
  }

  const Params& p_;
  Diagnostics& out_;
  StepSettings s_;
  std::string clock_name_;
};

}  // namespace

const MessageType& StepSettings::fields() {
  static const MessageType kType{
      "compute",
      "How long a gradient (forward and backward of a worker's mini-batch) takes.",
      {enum_field("clock", clock_names(), "CONSTANT",
                  "CONSTANT: the mean; GAMMA: machines alike, tasks that vary; MACHINES: fast and "
                  "slow machines, drawn once, whose tasks vary; EXPONENTIAL; SHIFTED_EXPONENTIAL: "
                  "shift, and the rest exponential; PARETO: heavy tails; TRACE: recorded times"),
       float_field("mean", "", "seconds on average; TRACE: its times are scaled to it when given"),
       float_field("task_variation", "0.1",
                   "standard deviation of a machine's steps, over their mean (GAMMA, MACHINES)"),
       float_field("machine_variation", "0.6",
                   "standard deviation of the machines' means, over the mean (MACHINES)"),
       float_field("shift", "", "seconds that every step takes at least (SHIFTED_EXPONENTIAL)"),
       float_field("shape", "3", "the smaller, the heavier the tail; above 1 (PARETO)"),
       path_field("trace", "file with a line worker,seconds for each step (TRACE)"),
       float_field("slow_probability", "0", "that a step, of whatever clock, takes longer"),
       float_field("slow_factor", "5", "how many times as long it then takes"),
       repeated(message_field("slow", slow_fields(), "workers with a factor of their own"))}};
  return kType;
}

StepSettings StepSettings::from(const Params& compute, Diagnostics& diagnostics) {
  return StepReader(compute, diagnostics).read();
}

}  // namespace kinet
