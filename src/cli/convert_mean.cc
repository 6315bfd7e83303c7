// kinet convert mean: the mean image of a database or a list, and the mean of each channel.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "data/image_list.h"
#include "data/lmdb_dataset.h"
#include "data/mean.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/command.h"

namespace kinet {
namespace {

class ConvertMean : public Command {
 public:
  static CommandType describe() {
    return {"convert mean", "mean image of a database, for transform_param's mean_file",
            "kinet convert mean data-cache/cifar10_train_lmdb data-cache/cifar10_mean.binaryproto"};
  }

  void configure(CLI::App& app) override {
    app.add_option("input", input_, "LMDB database, or a text file of lines 'path label'")
        ->required();
    app.add_option("output", output_, "file to write (.binaryproto)")->required();
    app.add_option("--root", list_.root, "folder that the paths in a list begin at");
    app.add_option("--height", list_.height, "resize listed images to this height, with --width");
    app.add_option("--width", list_.width, "resize listed images to this width");
  }

  int run() override {
    KINET_CHECK(std::filesystem::exists(input_), "{}: no such database or list", input_);
    KINET_CHECK((list_.height > 0) == (list_.width > 0), "--height and --width go together");
    const bool is_list = !std::filesystem::is_directory(input_) && !input_.ends_with(".mdb");
    const auto dataset = is_list ? open_image_list(input_, list_) : open_lmdb(input_);
    const MeanImage mean = compute_mean(*dataset);
    const auto folder = std::filesystem::path(output_).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder);
    write_mean(mean, output_);
    std::vector<std::string> channels;
    for (float value : channel_means(mean)) channels.push_back(fmt::format("{:.3f}", value));
    std::printf("%s: mean %s of %s images\n", output_.c_str(), mean.size_str().c_str(),
                with_commas(dataset->items()).c_str());
    std::printf("of each channel: mean_value: [%s]\n", join(channels, ", ").c_str());
    return 0;
  }

 private:
  std::string input_, output_;
  ImageListOptions list_;
};
KINET_REGISTER_COMMAND(ConvertMean);

}  // namespace
}  // namespace kinet
