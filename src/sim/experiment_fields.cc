// The fields of an experiment file.
#include "src/sim/experiment.h"
#include "src/sync/sync_fields.h"

namespace kinet {
namespace {

const MessageType& halving_fields() {
  static const MessageType type{
      "halving",
      "Successive halving over the learning rates: bad ones are given up early.",
      {float_field(
           "keep", "0.5",
           "part of the rates that goes on after a rung; and of the length of the next rung "
           "that a rung runs"),
       uint_field("rungs", "1", "rungs; the last one runs the whole length. 1: no halving")}};
  return type;
}

Field at_workers_field(const char* help) {
  static const MessageType type{
      "at_workers",
      "Solver fields for one number of workers alone.",
      {uint_field("workers", "", "that number, one of the experiment's"),
       repeated(string_field("set", "",
                             "a solver field that wins over all others but the rate: "
                             "\"warmup_start_lr=0.0125\""))}};
  return repeated(message_field("at_workers", type, help));
}

const MessageType& strategy_fields() {
  static const MessageType type{
      "strategy",
      "One of the rivals.",
      {string_field("name", "", "in tables and curves; each its own"),
       string_field("about", "", "a line of explanation below the table"),
       message_field("sync_param", sync_fields(),
                     "whom its workers wait for; in place of the solver file's; absent: as there"),
       repeated(string_field("set", "",
                             "a solver field that wins over the file: \"momentum=0\"; any number")),
       at_workers_field("fields of this strategy with so many workers"),
       repeated(float_field("rate", "", "learning rates to try; absent: those of the experiment")),
       repeated(float_field("rate_factor", "",
                            "the same as factors on the solver's base_lr (after `set`)"))}};
  return type;
}

const MessageType& published_fields() {
  static const MessageType type{
      "published",
      "A figure from elsewhere, printed below the table as \"not comparable\".",
      {string_field("text", "", "what was published, and where"),
       string_field("why", "baselines unknown", "why it cannot be compared")}};
  return type;
}

std::vector<Field> what_is_run() {
  return {string_field("name", "", "title of the report; default: the file's name"),
          string_field("about", "", "what the experiment is to show; printed below the title"),
          path_field("solver", "solver file that all strategies share"),
          path_field("objective",
                     "file of a synthetic function that is trained in place of the solver's net; "
                     "then the solver may be left out"),
          repeated(string_field("set", "", "a solver field that wins over the file, for all")),
          at_workers_field("fields of all strategies with so many workers"),
          repeated(string_field("objective_set", "",
                                "a field that wins over that file: "
                                "\"objective.quadratic.noise=0\"")),
          repeated(uint_field("workers", "", "numbers of workers")),
          repeated(path_field("cluster", "files of virtual clusters")),
          repeated(string_field("cluster_set", "",
                                "a field that wins over all of them: \"compute.mean=0.1\"")),
          repeated(wide(int_field("seed", "", "seeds whose runs make the figures")))};
}

std::vector<Field> length() {
  return {float_field("epochs", "", "length of a run in passes over the training set"),
          uint_field("max_iter", "",
                     "the same in iterations; an iteration is as many gradients as there are "
                     "workers, also for strategies that count each push as one"),
          float_field("max_seconds", "0", "a run also ends after so many virtual seconds; 0: no"),
          uint_field("tests", "0",
                     "tests of a run, evenly spread; 0: one every test_interval of the solver")};
}

std::vector<Field> tuning() {
  return {repeated(wide(int_field("tune_seed", "", "seeds that learning rates are chosen on"))),
          path_field("tune_cluster",
                     "cluster that rates are chosen on; absent: each cluster has its own choice"),
          repeated(float_field("rate", "", "learning rates (base_lr) that every strategy tries")),
          repeated(float_field("rate_factor", "", "the same as factors on the solver's base_lr")),
          message_field("halving", halving_fields(), "how bad rates are given up early"),
          enum_field("tune_by", {{"FINAL", 0}, {"TIME", 1}}, "FINAL",
                     "what the best rate is best at: the final figure, or the time to the last "
                     "target")};
}

std::vector<Field> judgement() {
  return {
      enum_field("measure", {{"AUTO", 0}, {"ACCURACY", 1}, {"LOSS", 2}}, "AUTO",
                 "test output that is compared; AUTO: accuracy, with an objective loss"),
      uint_field("final_tests", "1", "tests at the end of a run whose mean is its final figure"),
      repeated(float_field("target", "", "accuracies (0 to 1) or losses to reach")),
      string_field("target_from", "",
                   "strategy whose mean final figure at its own best rate gives a target more"),
      float_field("margin", "0.005",
                  "that target lies so far below the final accuracy; with losses: above it by "
                  "this factor - 1"),
      string_field("baseline", "", "strategy that speed-ups are over; default: the first"),
      string_field("candidate", "", "strategy whose speed-up over each other one is shown"),
      repeated(message_field("published", published_fields(), "figures from elsewhere"))};
}

}  // namespace

const MessageType& Experiment::fields() {
  static const MessageType type = [] {
    MessageType t{"experiment",
                  "A comparison of synchronisation strategies on virtual clusters (kinet compare).",
                  {}};
    for (const auto& group : {what_is_run(), length(), tuning(), judgement()}) {
      t.fields.insert(t.fields.end(), group.begin(), group.end());
    }
    t.fields.push_back(repeated(message_field("strategy", strategy_fields(), "the rivals")));
    return t;
  }();
  return type;
}

}  // namespace kinet
