// ctest: labels=unit timeout=300
//
// A check by a program we did not write: OpenCV's dnn module reads the deploy prototxt that kinet
// writes and the .caffemodel of a short training, and must give the same class scores, before the
// softmax, as kinet's TEST net: |a - b| <= 1e-4 max|b|.
#include <cmath>
#include <filesystem>
#include <opencv2/dnn.hpp>

#include "src/base/files.h"
#include "src/net/deploy.h"
#include "src/solver/solver.h"
#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string model, scores;  // the top before the softmax
  Shape image;
};

// The model with random images of random classes in place of its data: what is compared is
// arithmetic, and that needs no data set. Labels vary so that every weight moves.
ParamNode with_random_data(const Case& c, int64_t batch) {
  ParamNode net =
      load_net_file(std::string(KINET_SOURCE_DIR) + "/models/" + c.model + "/net.prototxt");
  std::erase_if(net.children, [](const ParamNode& child) {
    const ParamNode* type = child.find("type");
    return type != nullptr && LayerRegistry::instance().find(type->text)->is_data;
  });
  ParamNode data = parse_net(
      "layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: " +
      std::to_string(batch) + " dim: " + std::to_string(c.image[1]) +
      " dim: " + std::to_string(c.image[2]) + " dim: " + std::to_string(c.image[3]) +
      " } data_filler { type: 'gaussian' } } }"
      "layer { name: 'noise' type: 'DummyData' top: 'noise' dummy_data_param { shape { dim: " +
      std::to_string(batch) +
      " dim: 10 } data_filler { type: 'uniform' } } }"
      "layer { name: 'pick' type: 'ArgMax' bottom: 'noise' top: 'pick' argmax_param { axis: 1 } }"
      "layer { name: 'label' type: 'Reshape' bottom: 'pick' top: 'label' reshape_param { shape { "
      "dim: 0 } num_axes: 2 } }");
  net.children.insert(net.children.begin(), data.children.begin(), data.children.end());
  return net;
}

class Deploy : public testing::TestWithParam<Case> {
 protected:
  Deploy() : folder_(fs::temp_directory_path() / ("kinet_deploy_" + GetParam().model)) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Deploy() override { fs::remove_all(folder_); }
  std::string path(const std::string& file) const { return (folder_ / file).string(); }

 private:
  fs::path folder_;
};

TEST_P(Deploy, OpenCvGivesTheSameScores) {
  const Case& c = GetParam();
  const ParamNode net = with_random_data(c, 8);
  write_file_atomic(path("net.prototxt"), net.to_text());
  const std::string solver_text = "net: '" + path("net.prototxt") +
                                  "' base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' max_iter: 10 "
                                  "random_seed: 3 snapshot_prefix: '" +
                                  path("m") + "'";
  SolverObserver silent;
  SolverOptions solver_options;
  solver_options.threads = 2;
  Solver solver(SolverConfig::parse(solver_text, "solver.prototxt"), solver_options, silent);
  for (int i = 0; i < 10; ++i) solver.step();
  solver.snapshot();
  ASSERT_TRUE(fs::exists(path("m_iter_10.caffemodel")));

  // kinet: the deploy net itself, on the trained parameters.
  const ParamNode original =
      load_net_file(std::string(KINET_SOURCE_DIR) + "/models/" + c.model + "/net.prototxt");
  const Shape input{4, c.image[1], c.image[2], c.image[3]};
  const ParamNode deploy = make_deploy_net(original, input);
  write_file_atomic(path("deploy.prototxt"), deploy.to_text());
  NetOptions options;
  options.state.phase = Phase::kTest;
  Net ours(load_net_file(path("deploy.prototxt")), options, &solver.train_net());
  Tensor& data = *ours.blob("data");
  randomize(data, 11);
  ours.forward(Context{.phase = Phase::kTest});
  const Tensor& expected = *ours.blob(c.scores);

  cv::dnn::Net theirs =
      cv::dnn::readNetFromCaffe(path("deploy.prototxt"), path("m_iter_10.caffemodel"));
  const int sizes[4] = {4, static_cast<int>(input[1]), static_cast<int>(input[2]),
                        static_cast<int>(input[3])};
  theirs.setInput(cv::Mat(4, sizes, CV_32F, data.data()).clone(), "data");
  const cv::Mat scores = theirs.forward(c.scores).clone();
  ASSERT_EQ(static_cast<int64_t>(scores.total()), expected.count());
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    largest = std::max<double>(largest, std::abs(expected.data()[i]));
    worst = std::max<double>(worst, std::abs(expected.data()[i] - scores.ptr<float>()[i]));
  }
  EXPECT_GT(largest, 0.01);
  EXPECT_LE(worst, 1e-4 * largest);
}

INSTANTIATE_TEST_SUITE_P(Bundled, Deploy,
                         testing::Values(Case{"lenet", "ip2", {1, 1, 28, 28}},
                                         Case{"resnet20", "fc", {1, 3, 32, 32}}),
                         [](const auto& info) { return info.param.model; });

}  // namespace
}  // namespace kinet::test
