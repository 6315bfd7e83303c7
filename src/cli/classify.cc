// kinet classify: what a trained net sees in images, best class first.
//
// The net is cut down to its use (net/deploy.h): Input at the front, Softmax at the end; weights
// are copied by name, and images go through the transformation that the net's own data layer makes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <sstream>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/cli/command.h"
#include "src/cli/gpu_flag.h"
#include "src/cli/image_input.h"
#include "src/cli/load_weights.h"
#include "src/cli/net_summary.h"
#include "src/cli/options.h"
#include "src/cli/shape_flag.h"
#include "src/net/deploy.h"
#include "src/net/net.h"

namespace kinet {
namespace {

constexpr int64_t kBatch = 32;  // images in one pass: enough to keep the threads busy

std::vector<std::string> read_lines(const std::string& path) {
  std::istringstream in(read_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

// In place; the largest score is subtracted first, so that nothing overflows.
void softmax(std::vector<double>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

class Classify : public Command {
 public:
  static CommandType describe() {
    return {"classify", "the most probable classes of images",
            "kinet classify models/lenet/net.prototxt --weights lenet.caffemodel "
            "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz:0-9"};
  }

  void configure(CLI::App& app) override {
    app.add_option("NET", net_, "net file, of training or of use (.prototxt)")->required();
    add_weights_flag(app, weights_);
    app.add_option("IMAGES", images_, "image files, or items of an IDX file: images.gz:7, :0-9")
        ->required();
    app.add_option("--labels", labels_, "file with the name of each class, one a line");
    app.add_option("--top", top_, "classes to show")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--mean", mean_, "mean image (.binaryproto) or values 104,117,123 to subtract");
    app.add_option("--scale", scale_, "factor applied after the mean is subtracted");
    add_shape_flag(app, shape_, "channels,height,width, when the data is not at hand");
    add_threads_flag(app, threads_);
    add_gpu_flag(app, gpu_);
  }

  int run() override {
    require_net_file(net_, "classify");
    KINET_CHECK(!weights_.empty(),
                "classify: --weights is required\nhint: 'kinet train' writes a "
                ".caffemodel at every snapshot and at its end");
    for (const std::string& path : weights_) require_file(path, "--weights");
    if (!labels_.empty()) {
      require_file(labels_, "--labels");
      names_ = read_lines(labels_);
    }
    const std::vector<ImageItem> items = expand_items(images_);
    const ParamNode source = load_net_file(net_);
    const ParamNode deploy =
        make_deploy_net(source, needs_input_shape(source) ? images_shape(source, shape_) : Shape());
    NetOptions options;
    options.state.phase = Phase::kTest;
    options.threads = resolve_threads(threads_);
    options.device = open_gpu(gpu_);
    Net net(deploy, options);
    load_all_weights(weights_, net);
    classify(net, recipe_of(source), items);
    return 0;
  }

 private:
  ImageRecipe recipe_of(const ParamNode& source) const {
    ImageRecipe recipe = read_recipe(*find_data_layer(source));
    if (!mean_.empty()) set_mean(recipe, mean_);
    if (scale_) recipe.transform.scale = *scale_;
    return recipe;
  }

  // The net's input is the top of its Input layer, its output the first top of its last layer.
  void classify(Net& net, const ImageRecipe& recipe, const std::vector<ImageItem>& items) const {
    Tensor& input = *input_of(net);
    const int last = net.layer_count() - 1;
    const std::string ending = net.layer(last).type().type;
    const bool finished = ending == "Softmax" || ending == "Sigmoid";
    if (!finished)
      std::printf("note: the net ends in %s; softmax is applied here\n", ending.c_str());
    ImageReader reader(recipe, input.shape());
    Context context;
    context.phase = Phase::kTest;
    context.threads = resolve_threads(threads_);
    for (size_t begin = 0; begin < items.size(); begin += kBatch) {
      const size_t count = std::min<size_t>(kBatch, items.size() - begin);
      Shape shape = input.shape();
      shape[0] = static_cast<int64_t>(count);
      input.resize(shape);
      for (size_t i = 0; i < count; ++i) {
        reader.read(items[begin + i], input.data() + i * shape.count(1));
      }
      if (begin == 0 && !reader.note().empty()) {
        std::fprintf(stderr, "note: %s\n", reader.note().c_str());
      }
      net.forward(context);
      const Tensor& output = *net.tops(last).at(0);
      output.data_buffer()->to_host();
      KINET_CHECK(output.shape().num() == shape[0], "the net's output {} is not one row an image",
                  output.shape().str());
      const int64_t classes = output.count() / shape[0];
      check_labels(classes);
      for (size_t i = 0; i < count; ++i) {
        const float* row = output.data() + static_cast<int64_t>(i) * classes;
        std::vector<double> scores(row, row + classes);
        if (!finished) softmax(scores);
        print(items[begin + i].name, scores);
      }
    }
  }

  void check_labels(int64_t classes) const {
    KINET_CHECK(labels_.empty() || static_cast<int64_t>(names_.size()) >= classes,
                "--labels {}: {} lines, but the net has {} classes: one line for each is wanted",
                labels_, names_.size(), classes);
  }

  static Tensor* input_of(Net& net) {
    for (int i = 0; i < net.layer_count(); ++i) {
      if (net.layer(i).type().type == "Input") return net.tops(i).at(0);
    }
    fail("the net has no Input layer");
  }

  void print(const std::string& name, const std::vector<double>& scores) const {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min(order.size(), static_cast<size_t>(top_)));
    std::string text = name + "\n";
    for (const size_t c : order) {
      const std::string label = c < names_.size() ? names_[c] : fmt::format("class {}", c);
      text += fmt::format("  {:8.6f}  {}\n", scores[c], label);
    }
    std::fputs(text.c_str(), stdout);
  }

  std::string net_, labels_, mean_, gpu_;
  std::vector<std::string> weights_, images_, names_;
  std::vector<int64_t> shape_;
  std::optional<float> scale_;
  int64_t top_ = 5;
  int threads_ = 0;
};
KINET_REGISTER_COMMAND(Classify);

}  // namespace
}  // namespace kinet
