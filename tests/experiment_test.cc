// Experiment files: what they mean, and that everything wrong with them is said with its place and
// with what to do. ctest: labels=unit,core
#include "src/sim/experiment.h"

#include <gtest/gtest.h>

#include "tests/experiment_helpers.h"

namespace kinet {
namespace {

const std::string kHead =
    "solver: 'solver.prototxt' cluster: 'a.prototxt' workers: 4 seed: [11, 12]\n";
const std::string kLength = "max_iter: 10\n";
const std::string kBsp = "strategy { name: 'bsp' }\n";
const std::string kAsp = "strategy { name: 'asp' sync_param { model: 'asp' } }\n";

std::string errors(const std::string& text) {
  const ExperimentFolder files;
  return message_of([&] { files.parse(text); });
}

TEST(Experiment, TheLeastThatIsNeeded) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kLength + kBsp + kAsp);
  EXPECT_EQ(e.name, "experiment");
  EXPECT_EQ(e.solver, files.folder() / "solver.prototxt");
  EXPECT_EQ(e.seeds, (std::vector<uint64_t>{11, 12}));
  ASSERT_EQ(e.strategies.size(), 2u);
  EXPECT_EQ(e.strategies[1].rates, std::vector<double>{0.1});  // the solver's base_lr
  EXPECT_EQ(e.baseline, 0);
  EXPECT_EQ(e.target_from, -1);
  EXPECT_EQ(e.measure, Measure::kAccuracy);
}

TEST(Experiment, RatesOfAStrategyWinAndFactorsAreOfItsOwnBase) {
  const ExperimentFolder files;
  const Experiment e =
      files.parse(kHead + kLength + "tune_seed: 1 rate: [0.2, 0.1]" + kBsp +
                  "strategy { name: 'own' rate: 0.3 }"
                  "strategy { name: 'factors' set: 'base_lr=0.5' rate_factor: [2, 1, 0.5] }");
  EXPECT_EQ(e.strategies[0].rates, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(e.strategies[1].rates, std::vector<double>{0.3});
  EXPECT_EQ(e.strategies[2].rates, (std::vector<double>{0.25, 0.5, 1}));
}

TEST(Experiment, TheSolverFileOfAStrategy) {
  const ExperimentFolder files;
  const Experiment e =
      files.parse(kHead + kLength + "set: 'momentum=0.5' set: 'weight_decay=0.25'" + kBsp +
                  "strategy { name: 'k' sync_param { model: 'k_sync' k: 3 } set: 'momentum=0' }");
  const auto config = e.config(e.strategies[1], 0.7, {"max_iter=42"});
  const Params p = config->params();
  EXPECT_EQ(p.message("sync_param").get_string("model"), "k_sync");
  EXPECT_EQ(p.message("sync_param").get_int("k"), 3);
  EXPECT_EQ(p.get_double("base_lr"), 0.7);
  EXPECT_EQ(p.get_double("momentum"), 0);
  EXPECT_EQ(p.get_double("weight_decay"), 0.25);
  EXPECT_EQ(p.get_int("max_iter"), 42);
  const auto bsp = e.config(e.strategies[0], 0.1);
  EXPECT_EQ(bsp->params().get_double("momentum"), 0.5);
  EXPECT_EQ(bsp->params().message("sync_param").get_string("model"), "bsp");
}

// Fields of one number of workers win over the others, a strategy's own over those of all.
TEST(Experiment, FieldsForANumberOfWorkers) {
  const ExperimentFolder files;
  const std::string head =
      "solver: 'solver.prototxt' cluster: 'a.prototxt' workers: [2, 8] seed: 11\n" + kLength;
  const Experiment e = files.parse(
      head + "set: 'momentum=0.5' at_workers { workers: 8 set: 'momentum=0.25' set: 'gamma=0.3' }" +
      kBsp +
      "strategy { name: 'k' sync_param { model: 'k_sync' } set: 'momentum=0'"
      "  at_workers { workers: 8 set: 'momentum=0.125' } }");
  const auto momentum = [&](int strategy, int workers) {
    const Strategy& s = e.strategies[static_cast<size_t>(strategy)];
    return e.config(s, 0.1, e.set_at(s, workers))->params().get_double("momentum");
  };
  EXPECT_EQ(momentum(0, 2), 0.5);
  EXPECT_EQ(momentum(0, 8), 0.25);
  EXPECT_EQ(momentum(1, 2), 0);
  EXPECT_EQ(momentum(1, 8), 0.125);
  EXPECT_CONTAINS(errors(head + kBsp + "at_workers { workers: 4 set: 'gamma=0.3' }"),
                  "no run has 4 workers");
  EXPECT_CONTAINS(errors(head + "strategy { name: 'b' at_workers { workers: 8 set: 'gama=1' } }"),
                  "strategy 'b'");
}

// An objective takes the place of the net, and the solver may be left out.
TEST(Experiment, AnObjectiveNeedsNoSolver) {
  const ExperimentFolder files;
  const std::string rest =
      "objective: 'a.prototxt' cluster: 'b.prototxt' workers: 2 seed: 1 tests: 5 " + kLength + kBsp;
  const Experiment e = files.parse(rest + "rate: 0.5");
  EXPECT_EQ(e.measure, Measure::kLoss);
  EXPECT_EQ(e.config(e.strategies[0], 0.5)->params().get_double("base_lr"), 0.5);
  EXPECT_CONTAINS(errors(rest), "strategy 'bsp' has no learning rate");
}

TEST(Experiment, WhatIsMissingIsNamedTogether) {
  const std::string text = errors("about: 'nothing'");
  for (const char* part :
       {"nothing to train\nhint: solver:", "no cluster\nhint:", "no number of workers\nhint:",
        "no seed\nhint:", "how long is a run?\nhint:", "no strategy\nhint:"}) {
    EXPECT_CONTAINS(text, part);
  }
}

TEST(Experiment, WhatMakesNoSenseHasItsPlace) {
  EXPECT_CONTAINS(errors("workerz: 3"), "experiment.prototxt:1:1: experiment: unknown field");
  EXPECT_CONTAINS(errors("workerz: 3"), "did you mean 'workers'");
  const auto with = [](const std::string& more) { return errors(kHead + kLength + kBsp + more); };
  EXPECT_CONTAINS(with("cluster: 'c.prototxt'"),
                  "experiment.prototxt:4:10: cluster: 'c.prototxt' (looked for at /");
  EXPECT_CONTAINS(with("cluster: 'a.prototxt'"), "two clusters are called 'a'");
  EXPECT_CONTAINS(with("tune_seed: 12"), "12 is both a tune_seed and a seed");
  EXPECT_CONTAINS(with("seed: 11"), "seed 11 is given twice");
  EXPECT_CONTAINS(with("seed: -1"), "-1 is negative");
  EXPECT_CONTAINS(with("workers: 0"), "workers: at least 1");
  EXPECT_CONTAINS(with("epochs: 2"), "not in both");
  EXPECT_CONTAINS(with("rate: [0.1, 0.2]"), "no tune_seed to choose on\nhint: tune_seed");
  EXPECT_CONTAINS(with("rate: 0"), "rate: above 0");
  EXPECT_CONTAINS(with("rate: 1 rate_factor: 2"), "give rate or rate_factor, not both");
  EXPECT_CONTAINS(with("target: 85"), "an accuracy lies between 0 and 1");
  EXPECT_CONTAINS(with("baseline: 'bps'"), "no strategy is called 'bps' (did you mean 'bsp'?)");
  EXPECT_CONTAINS(with("target_from: 'k'"), "target_from: no strategy is called 'k'");
  EXPECT_CONTAINS(with("tune_by: TIME"), "needs a target");
  EXPECT_CONTAINS(with("halving { keep: 1 }"), "between 0 and 1");
  EXPECT_CONTAINS(with("halving { rungs: 0 }"), "rungs: 1 to 10");
  EXPECT_CONTAINS(with("final_tests: 0"), "at least 1");
  EXPECT_CONTAINS(with("published {}"), "without a text");
  EXPECT_CONTAINS(with(kBsp), "two strategies are called 'bsp'");
  EXPECT_CONTAINS(with("strategy {}"), "a strategy without a name");
}

// Before anything runs, not after an hour.
TEST(Experiment, AStrategyThatCannotRunIsNamed) {
  const auto with = [](const std::string& more) { return errors(kHead + kLength + kBsp + more); };
  EXPECT_CONTAINS(with("strategy { name: 'x' sync_param { mode: 'asp' } }"),
                  "experiment.prototxt:4:35: experiment, strategy, sync_param: unknown field");
  EXPECT_CONTAINS(with("strategy { name: 'x' sync_param { model: 'aps' } }"),
                  "there is no synchronisation model 'aps' (did you mean 'asp'?)");
  EXPECT_CONTAINS(with("strategy { name: 'x' sync_param { model: 'k_sync' k: 5 } }"),
                  "experiment.prototxt:4:1: strategy 'x': ");
  EXPECT_CONTAINS(with("strategy { name: 'x' set: 'momentun=0' }"), "did you mean 'momentum'");
  EXPECT_CONTAINS(with("strategy { name: 'x' set: 'test_interval=0' }"), "nothing would be tested");
  const ExperimentFolder files;
  files.folder().write("solver.prototxt", "base_lr: 0.1\nmomentum: 2\n");
  const std::string own = message_of([&] { files.parse(kHead + kLength + kBsp); });
  EXPECT_CONTAINS(own, "solver.prototxt:2:");
  EXPECT_EQ(own.find("strategy"), std::string::npos)
      << own;  // the solver's fault, not a strategy's
}

TEST(Experiment, EveryFieldHasHelp) {
  for (const Field& field : Experiment::fields().fields) {
    EXPECT_FALSE(field.help.empty()) << field.name;
  }
}

}  // namespace
}  // namespace kinet
