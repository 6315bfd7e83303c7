// Solver files: what is wrong with them is said at once and well; nets and states are found as
// Caffe finds them; --set wins over the file. ctest: labels=unit,core,smoke
#include <gtest/gtest.h>

#include "tests/solver_helpers.h"

namespace kinet {
namespace {

const std::string kNet =
    "net_param { layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { "
    "dim: "
    "2 dim: 3 } } } layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' "
    "inner_product_param { num_output: 3 } } layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' "
    "bottom: 'y' top: 'l' } }\n";
const std::string kRest = "base_lr: 0.1 max_iter: 5\n";

std::string errors(const std::string& text, const std::vector<std::string>& set = {}) {
  return message_of([&] { SolverConfig::parse(text, "s.prototxt", set); });
}

TEST(SolverConfig, EveryFaultAtOnce) {
  const std::string text = errors(
      "net_param { layer { name: 'd' type: 'Dumydata' top: 'x' } }\n"
      "base_lr: fast\nmomentun: 0.9\nmax_iter: 5\nmax_iter: 6\nlr_policy: 'stepp'\n");
  EXPECT_CONTAINS(text, "did you mean 'DummyData'");
  EXPECT_CONTAINS(text, "s.prototxt:2:");
  EXPECT_CONTAINS(text, "did you mean 'momentum'");
  EXPECT_CONTAINS(text, "given twice");
  EXPECT_CONTAINS(text, "did you mean 'step'");
}

TEST(SolverConfig, WhatMakesNoSense) {
  EXPECT_CONTAINS(errors(kRest), "names no net");
  EXPECT_CONTAINS(errors(kNet + "net: 'other.prototxt'\n" + kRest),
                  "more than once: net, net_param");
  EXPECT_CONTAINS(errors("net: 'nowhere/net.prototxt'\n" + kRest),
                  "s.prototxt:1:6: net: 'nowhere/net.prototxt' (looked for at /");
  EXPECT_CONTAINS(errors(kNet + "max_iter: 5"), "'base_lr' is missing");
  EXPECT_CONTAINS(errors(kNet + "base_lr: 1"), "'max_iter' is missing");
  EXPECT_CONTAINS(errors(kNet + kRest + "type: 'Adamm'"), "did you mean 'Adam'");
  EXPECT_CONTAINS(errors(kNet + kRest + "type: 'AdaGrad' momentum: 0.9"),
                  "AdaGrad has no momentum");
  EXPECT_CONTAINS(errors(kNet + kRest + "momentum: 1"), "below 1");
  EXPECT_CONTAINS(errors(kNet + kRest + "iter_size: 0"), "iter_size must be at least 1");
  EXPECT_CONTAINS(errors(kNet + kRest + "solver_mode: GPU device_id: -1"),
                  "device_id is the number of a GPU, from 0");
  EXPECT_CONTAINS(errors(kNet + kRest + "snapshot_format: HDF5"), "BINARYPROTO");
  EXPECT_CONTAINS(errors(kNet + kRest + "early_stop_param {}"), "set test_interval");
  EXPECT_CONTAINS(errors(kNet + kRest + "test_iter: 1 test_iter: 2 test_state {}"),
                  "2 test nets but 1 test_state");
  EXPECT_CONTAINS(
      errors(kNet + kRest + "lr_policy: 'multistep' gamma: .1 stepvalue: 10 stepvalue: 5"),
      "5 follows 10");
}

TEST(SolverConfig, AFieldWithoutEffectIsNoted) {
  const auto config = SolverConfig::parse(kNet + kRest + "debug_info: true", "s.prototxt");
  ASSERT_EQ(config->notes().size(), 1u);
  EXPECT_CONTAINS(config->notes()[0], "debug_info");
}

TEST(SolverConfig, OldSolverTypeIsRead) {
  const auto config = SolverConfig::parse(kNet + kRest + "solver_type: ADAM", "s.prototxt");
  EXPECT_EQ(config->params().get_string("type"), "Adam");
}

TEST(SolverConfig, SetWinsOverTheFile) {
  const auto config = SolverConfig::parse(
      kNet + kRest + "stepvalue: 1 stepvalue: 2 test_interval: 1 test_iter: 1", "s.prototxt",
      {"base_lr=0.25", "type=Nesterov", "stepvalue=10,20,30", "early_stop_param.patience=3",
       "snapshot_prefix=/tmp/a b", "net_param.name=other"});
  const Params p = config->params();
  EXPECT_EQ(p.get_double("base_lr"), 0.25);
  EXPECT_EQ(p.get_string("type"), "Nesterov");
  EXPECT_EQ(p.get_ints("stepvalue"), (std::vector<int64_t>{10, 20, 30}));
  EXPECT_EQ(p.message("early_stop_param").get_int("patience"), 3);
  EXPECT_EQ(p.get_string("snapshot_prefix"), "/tmp/a b");
  EXPECT_EQ(config->train_net().find("name")->text, "other");
  EXPECT_CONTAINS(config->params().node()->to_text(), "0.25");
}

TEST(SolverConfig, SetIsCheckedLikeTheFile) {
  EXPECT_CONTAINS(errors(kNet + kRest, {"base_lrr=1"}), "did you mean 'base_lr'");
  EXPECT_CONTAINS(errors(kNet + kRest, {"base_lr=quick"}), "--set base_lr=quick");
  EXPECT_CONTAINS(errors(kNet + kRest, {"base_lr"}), "field=value");
  EXPECT_CONTAINS(errors(kNet + kRest, {"base_lr.x=1"}), "no fields of its own");
}

TEST(SolverConfig, TestNetsInCaffesOrder) {
  const auto count = [](const std::string& fields) {
    return SolverConfig::parse(kNet + kRest + fields, "s.prototxt")->test_net_count();
  };
  EXPECT_EQ(count(""), 0);
  EXPECT_EQ(count("test_interval: 2"), 1);
  EXPECT_EQ(count("test_interval: 2 test_iter: 4 test_iter: 4"), 2);
  EXPECT_EQ(count("test_interval: 2 test_state {} test_state { stage: 'a' } test_state {}"), 3);
}

// Every field has its line of help: docs/model_files.md is made from them.
TEST(SolverConfig, EveryFieldHasHelp) {
  for (const Field& field : SolverConfig::fields().fields)
    EXPECT_FALSE(field.help.empty()) << field.name;
}

}  // namespace
}  // namespace kinet
