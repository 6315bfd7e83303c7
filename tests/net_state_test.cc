// include / exclude rules, input fields, and which layers of a file a state keeps.
#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

using Names = std::vector<std::string>;

NetState state(Phase phase, int level = 0, const Names& stages = {}) {
  return {phase, level, stages};
}

std::string two_layers(const std::string& rule) {
  return "layer { name: 'a' type: 'Input' top: 'a' input_param { shape { dim: 1 } } }"
         "layer { name: 'b' type: 'ReLU' bottom: 'a' top: 'b' " +
         rule + " }";
}

bool keeps(const std::string& rule, const NetState& s) {
  return layer_names(two_layers(rule), s) == Names{"a", "b"};
}

TEST(NetState, NoRuleKeepsTheLayer) { EXPECT_TRUE(keeps("", state(Phase::kTest))); }

TEST(NetState, PhaseRules) {
  EXPECT_TRUE(keeps("include { phase: TRAIN }", state(Phase::kTrain)));
  EXPECT_FALSE(keeps("include { phase: TRAIN }", state(Phase::kTest)));
  EXPECT_FALSE(keeps("exclude { phase: TRAIN }", state(Phase::kTrain)));
  EXPECT_TRUE(keeps("exclude { phase: TRAIN }", state(Phase::kTest)));
}

TEST(NetState, LevelRules) {
  const std::string range = "include { min_level: 2 max_level: 3 }";
  for (int level = 0; level < 6; ++level) {
    EXPECT_EQ(keeps(range, state(Phase::kTrain, level)), level == 2 || level == 3) << level;
  }
  EXPECT_FALSE(keeps("exclude { min_level: 2 }", state(Phase::kTrain, 2)));
}

TEST(NetState, StageRules) {
  const std::string both = "include { stage: 'x' stage: 'y' }";
  EXPECT_FALSE(keeps(both, state(Phase::kTrain, 0, {"x"})));
  EXPECT_TRUE(keeps(both, state(Phase::kTrain, 0, {"y", "x"})));
  EXPECT_FALSE(keeps("include { not_stage: 'x' }", state(Phase::kTrain, 0, {"x"})));
  EXPECT_TRUE(keeps("include { not_stage: 'x' }", state(Phase::kTrain)));
}

TEST(NetState, AnyOfSeveralRulesDecides) {
  const std::string rules = "include { phase: TEST } include { stage: 'x' }";
  EXPECT_TRUE(keeps(rules, state(Phase::kTest)));
  EXPECT_TRUE(keeps(rules, state(Phase::kTrain, 0, {"x"})));
  EXPECT_FALSE(keeps(rules, state(Phase::kTrain)));
}

TEST(NetState, StateOfTheFileAddsLevelAndStages) {
  const std::string text = "state { stage: 'x' } " + two_layers("include { stage: 'x' }");
  EXPECT_EQ(layer_names(text, state(Phase::kTrain)), (Names{"a", "b"}));
}

TEST(NetState, IncludeAndExcludeTogetherAreRefused) {
  const std::string error =
      error_of([] { parse_net(two_layers("include { phase: TRAIN } exclude { phase: TEST }")); });
  EXPECT_HAS(error, "test.prototxt:1:");
  EXPECT_HAS(error, "layer 'b' (ReLU)");
}

TEST(NetState, NothingLeftIsAnError) {
  const std::string text =
      "layer { name: 'a' type: 'Input' top: 'a' input_param { shape { dim: 1 } } "
      "include { phase: TEST } }";
  EXPECT_HAS(error_of([&] { layer_names(text, state(Phase::kTrain)); }), "no layer is left");
}

TEST(NetInput, OldInputFieldsBecomeInputLayers) {
  const auto net = make_net(
      "input: 'data' input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5 "
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }");
  EXPECT_EQ(net->blob("r")->shape(), (Shape{2, 3, 4, 5}));
  const auto shaped = make_net(
      "input: 'a' input: 'b' input_shape { dim: 2 } input_shape { dim: 3 dim: 1 } "
      "layer { name: 's' type: 'Silence' bottom: 'a' bottom: 'b' }");
  EXPECT_EQ(shaped->blob("b")->shape(), (Shape{3, 1}));
}

TEST(NetInput, InputWithoutShapeIsAnError) {
  EXPECT_HAS(error_of([] { parse_net("input: 'data'"); }), "has no shape");
}

TEST(NetFile, AllErrorsOfAFileInOneRun) {
  const std::string error = error_of([] {
    parse_net(
        "layer { name: 'conv1' type: 'Convolution' bottom: 'd' top: 'c'\n"
        "  convolution_param { num_output: 2 kernelsize: 3 } }\n"
        "layer { name: 'relu1' type: 'Relu' bottom: 'c' top: 'c' include { phase: TEST } }");
  });
  EXPECT_HAS(error, "test.prototxt:2:37: layer 'conv1'");
  EXPECT_HAS(error, "did you mean 'kernel_size'?");
  EXPECT_HAS(error, "test.prototxt:3:");
  EXPECT_HAS(error, "did you mean 'ReLU'?");
}

TEST(NetFile, MixedOldAndNewFormsKeepFileOrder) {
  const std::string text =
      "layer { name: 'a' type: 'Input' top: 'a' input_param { shape { dim: 1 dim: 4 } } }"
      "layers { name: 'b' type: RELU bottom: 'a' top: 'b' }"
      "layer { name: 'c' type: 'Sigmoid' bottom: 'b' top: 'c' }";
  EXPECT_EQ(layer_names(text, state(Phase::kTrain)), (Names{"a", "b", "c"}));
}

}  // namespace
}  // namespace kinet::test
