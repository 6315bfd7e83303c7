// kinet convert deploy: the net of use, for Caffe and for programs that read its files.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/cli/command.h"
#include "src/cli/input_transform.h"
#include "src/cli/net_summary.h"
#include "src/cli/options.h"
#include "src/cli/shape_flag.h"
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
    add_shape_flag(app, shape_, "channels,height,width, when the data is not at hand");
  }

  int run() override {
    require_net_file(net_, "convert deploy");
    const ParamNode net = load_net_file(net_);
    const bool has_data = needs_input_shape(net);
    Shape shape;
    InputTransform transform;
    if (has_data) {
      shape = images_shape(net, shape_);
      shape[0] = batch_;
      transform = describe_transform(*find_data_layer(net));
    }
    const std::string text =
        (has_data ? transform_comment(transform) : "") + make_deploy_net(net, shape).to_text();
    if (out_ == "-") {
      std::fputs(text.c_str(), stdout);
      return 0;
    }
    write_file_atomic(out_, text);
    std::printf("wrote %s\n", out_.c_str());
    if (has_data) tell(transform);
    return 0;
  }

 private:
  static void tell(const InputTransform& transform) {
    std::printf("The net does not do what the data layer did; its input is:\n");
    for (const std::string& line : transform.lines) std::printf("  %s\n", line.c_str());
    if (transform.flags.empty()) return;
    std::printf("flags of kinet classify: %s\n", transform.flags.c_str());
  }

  std::string net_, out_;
  int64_t batch_ = 1;
  std::vector<int64_t> shape_;
};
KINET_REGISTER_COMMAND(ConvertDeploy);

}  // namespace
}  // namespace kinet
