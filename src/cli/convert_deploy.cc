// kinet convert deploy: the net of use, for Caffe and for programs that read its files.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/cli/command.h"
#include "src/cli/options.h"
#include "src/net/deploy.h"

namespace kinet {
namespace {

class ConvertDeploy : public Command {
 public:
  static CommandType describe() {
    return {"convert deploy", "the net without data, labels and losses, for Caffe and OpenCV",
            "kinet convert deploy models/lenet/net.prototxt deploy.prototxt"};
  }

  void configure(CLI::App& app) override {
    app.add_option("NET", net_, "net file (.prototxt)")->required();
    app.add_option("OUT", out_, "file to write; '-' = standard output")->required();
    app.add_option("--batch", batch_, "images in the input's shape")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--shape", shape_, "channels,height,width, when the data is not at hand")
        ->delimiter(',')
        ->expected(3)
        ->check(CLI::PositiveNumber);
  }

  int run() override {
    require_file(net_, "convert deploy");
    const ParamNode net = load_net_file(net_);
    const std::string text = make_deploy_net(net, input_shape(net)).to_text();
    if (out_ == "-") {
      std::fputs(text.c_str(), stdout);
    } else {
      write_file_atomic(out_, text);
      std::printf("wrote %s\n", out_.c_str());
    }
    return 0;
  }

 private:
  // As --shape says, else what the data layer brings.
  Shape input_shape(const ParamNode& net) const {
    if (!needs_input_shape(net)) return {};
    if (!shape_.empty()) return Shape{batch_, shape_[0], shape_[1], shape_[2]};
    try {
      Shape shape = open_data_shape(net);
      shape[0] = batch_;
      return shape;
    } catch (const Error& error) {
      fail("{}\nhint: --shape 3,32,32 gives the images' shape without the data", error.what());
    }
  }

  std::string net_, out_;
  int64_t batch_ = 1;
  std::vector<int64_t> shape_;
};
KINET_REGISTER_COMMAND(ConvertDeploy);

}  // namespace
}  // namespace kinet
