// ctest: labels=unit timeout=300
//
// Every bundled model sets up, has the published number of parameters and the published shapes, and
// takes one forward and one backward step on one image.
//
// Data layers are replaced by DummyData of the shape that the real data would have, so that no data
// set is needed.
#include <cmath>
#include <filesystem>
#include <set>

#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

namespace fs = std::filesystem;

struct Model {
  std::string name;
  Shape image;
  int64_t parameters;                                 // in TRAIN
  std::vector<std::pair<std::string, Shape>> shapes;  // some tops, batch 1
};

const std::vector<Model>& models() {
  static const std::vector<Model> all = {
      {"lenet",
       {1, 1, 28, 28},
       431080,
       {{"conv1", {1, 20, 24, 24}},
        {"pool1", {1, 20, 12, 12}},
        {"conv2", {1, 50, 8, 8}},
        {"pool2", {1, 50, 4, 4}},
        {"ip1", {1, 500}},
        {"ip2", {1, 10}}}},
      {"cifar10_quick",
       {1, 3, 32, 32},
       145578,
       {{"pool1", {1, 32, 16, 16}},
        {"pool2", {1, 32, 8, 8}},
        {"pool3", {1, 64, 4, 4}},
        {"ip2", {1, 10}}}},
      {"cifar10_full",
       {1, 3, 32, 32},
       89578,
       {{"pool1", {1, 32, 16, 16}}, {"pool3", {1, 64, 4, 4}}, {"ip1", {1, 10}}}},
      {"alexnet",
       {1, 3, 227, 227},
       60965224,
       {{"conv1", {1, 96, 55, 55}},
        {"pool1", {1, 96, 27, 27}},
        {"pool2", {1, 256, 13, 13}},
        {"pool5", {1, 256, 6, 6}},
        {"fc8", {1, 1000}}}},
      {"googlenet",
       {1, 3, 224, 224},
       13378280,
       {{"pool1/3x3_s2", {1, 64, 56, 56}},
        {"inception_3a/output", {1, 256, 28, 28}},
        {"inception_4a/output", {1, 512, 14, 14}},
        {"inception_5b/output", {1, 1024, 7, 7}},
        {"pool5/7x7_s1", {1, 1024, 1, 1}},
        {"loss3/classifier", {1, 1000}}}},
      {"vgg16",
       {1, 3, 224, 224},
       138357544,
       {{"pool1", {1, 64, 112, 112}}, {"pool5", {1, 512, 7, 7}}, {"fc8", {1, 1000}}}},
      {"resnet20", {1, 3, 32, 32}, 272474, {{"conv1", {1, 16, 32, 32}}, {"fc", {1, 10}}}},
      {"resnet50",
       {1, 3, 224, 224},
       25557032,
       {{"conv1", {1, 64, 112, 112}},
        {"pool1", {1, 64, 56, 56}},
        {"pool5", {1, 2048, 1, 1}},
        {"fc1000", {1, 1000}}}},
  };
  return all;
}

std::string folder() { return std::string(KINET_SOURCE_DIR) + "/models"; }

// The net with every data layer replaced: same name, tops and rules, one random image, label 0.
ParamNode with_dummy_data(const Model& model) {
  ParamNode net = load_net_file(folder() + "/" + model.name + "/net.prototxt");
  for (ParamNode& layer : net.children) {
    if (layer.name != "layer") continue;
    const LayerType* type = LayerRegistry::instance().find(layer.find("type")->text);
    if (!type->is_data || type->type == "Input") continue;
    std::erase_if(layer.children, [](const ParamNode& child) {
      return child.name.ends_with("_param") || child.name == "type";
    });
    layer.add_string("type", "DummyData");
    ParamNode& dummy = layer.add_message("dummy_data_param");
    for (const Shape& shape : {model.image, Shape{1}}) {
      ParamNode& node = dummy.add_message("shape");
      for (int64_t dim : shape.dims()) node.add_scalar("dim", std::to_string(dim));
    }
    dummy.add_message("data_filler").add_string("type", "gaussian");
    dummy.add_message("data_filler").add_string("type", "constant");
  }
  return net;
}

class Models : public testing::TestWithParam<Model> {};
class SmallModels : public testing::TestWithParam<Model> {};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

TEST_P(Models, SetsUpAndTakesAStep) {
  const Model& model = GetParam();
  NetOptions options;
  options.threads = 2;
  Net net(with_dummy_data(model), options);
  EXPECT_EQ(net.parameter_count(), model.parameters);
  for (const auto& [blob, shape] : model.shapes) {
    ASSERT_NE(net.blob(blob), nullptr) << blob;
    EXPECT_EQ(net.blob(blob)->shape(), shape) << blob << " is " << net.blob(blob)->shape().str();
  }
  Context context;
  context.threads = 2;
  const double loss = net.forward(context);
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_GT(loss, 0.1);
  net.zero_gradients();
  net.backward(context);
  EXPECT_EQ(net.find_non_finite(context), "");
  // Every parameter of the net is reached by the gradient.
  for (const ParameterInfo& info : net.parameters()) {
    if (info.is_buffer) continue;
    double sum = 0;
    for (size_t i = 0; i < info.count; ++i) sum += std::abs(net.gradient_arena()[info.offset + i]);
    EXPECT_GT(sum, 0) << info.name;
  }
}

TEST_P(SmallModels, TestNetUsesTheTrainingParameters) {
  const Model& model = GetParam();
  const ParamNode tree = with_dummy_data(model);
  NetOptions train_options, test_options;
  test_options.state.phase = Phase::kTest;
  Net train(tree, train_options);
  Net test(tree, test_options, &train);
  EXPECT_TRUE(test.parameters().empty()) << "the test net owns parameters of its own";
  EXPECT_TRUE(std::isfinite(test.forward(Context{.phase = Phase::kTest})));
}

INSTANTIATE_TEST_SUITE_P(Bundled, Models, testing::ValuesIn(models()),
                         [](const auto& info) { return info.param.name; });

// A second set-up of AlexNet or VGG-16 would cost a gigabyte and show nothing new.
std::vector<Model> small_models() {
  std::vector<Model> small;
  for (const Model& model : models()) {
    if (model.parameters < 30000000) small.push_back(model);
  }
  return small;
}

INSTANTIATE_TEST_SUITE_P(Bundled, SmallModels, testing::ValuesIn(small_models()),
                         [](const auto& info) { return info.param.name; });

TEST(ModelFolder, EveryModelIsInTheTable) {
  std::set<std::string> listed, found;
  for (const Model& model : models()) listed.insert(model.name);
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (fs::exists(entry.path() / "net.prototxt")) found.insert(entry.path().filename().string());
  }
  EXPECT_EQ(listed, found);
}

}  // namespace
}  // namespace kinet::test
