// kinet convert images: an LMDB database from a folder of class folders or from a list of images.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "data/convert.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/command.h"

namespace kinet {
namespace {

constexpr double kProgressSeconds = 0.2;  // between two changes of the line

// "12,000 of 50,000 images" on one line of a terminal; nothing when piped.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  void operator()(int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || std::chrono::duration<double>(now - last_).count() < kProgressSeconds) return;
    last_ = now;
    shown_ = true;
    std::fprintf(stderr, "\r%s of %s images", with_commas(done).c_str(),
                 with_commas(total).c_str());
    std::fflush(stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

class ConvertImages : public Command {
 public:
  static CommandType describe() {
    return {"convert images", "LMDB database from class folders or a list of images",
            "kinet convert images cifar10/train data-cache/cifar10_train_lmdb"};
  }

  void configure(CLI::App& app) override {
    app.add_option("input", options_.input,
                   "folder with one sub-folder a class, or a text file of lines 'path label'")
        ->required();
    app.add_option("output", options_.output, "folder of the database, made new")->required();
    app.add_option("--root", options_.root, "folder that the paths in a list begin at");
    app.add_flag("--shuffle", options_.shuffle, "put the images in random order");
    app.add_option("--seed", options_.seed, "of --shuffle (default 1)");
    app.add_option("--height", options_.height, "resize to this height in pixels, with --width");
    app.add_option("--width", options_.width, "resize to this width in pixels");
    app.add_flag("--gray,--grey", options_.grey, "one channel instead of three");
    app.add_flag("--encoded", options_.encoded,
                 "keep the images compressed: smaller, slower to read");
    app.add_option("--encode-as", options_.encode_as,
                   "format of images that --encoded has to change: .png (default) or .jpg");
    app.add_flag("--skip-bad", options_.skip_bad, "leave out images that cannot be read");
    app.add_flag("--force", options_.force, "replace an existing database");
  }

  int run() override {
    ConvertReport report;
    {
      ProgressLine progress;
      report = convert_images(options_, std::ref(progress));
    }
    std::printf("%s: %s images", options_.output.c_str(), with_commas(report.items).c_str());
    if (!report.classes.empty()) {
      std::printf(" of %zu classes (names in labels.txt)", report.classes.size());
    }
    std::printf("\n");
    if (report.skipped > 0) {
      std::printf("left out: %s, the first: %s\n", with_commas(report.skipped).c_str(),
                  report.first_skipped.c_str());
    }
    return 0;
  }

 private:
  ConvertOptions options_;
};
KINET_REGISTER_COMMAND(ConvertImages);

}  // namespace
}  // namespace kinet
