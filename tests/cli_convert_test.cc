// kinet convert images and convert mean as typed, on two tiny classes.
#include <filesystem>

#include "data/image_loader.h"
#include "src/cli/command.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

std::string flat_png(int value) {
  const Image image{1, 2, 2, std::vector<uint8_t>(4, static_cast<uint8_t>(value))};
  const std::vector<uint8_t> bytes = encode_image(image, ".png");
  return {bytes.begin(), bytes.end()};
}

// What the command prints; its exit status must be 0.
std::string output_of(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_command_line(arguments), 0);
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

TEST(CliConvert, ImagesThenMean) {
  const TemporaryFolder folder;
  folder.write("in/cat/1.png", flat_png(10));
  folder.write("in/dog/1.png", flat_png(40));
  const std::string database = folder / "db", mean = folder / "out/mean.binaryproto";
  EXPECT_EQ(output_of({"convert", "images", folder / "in", database}),
            database + ": 2 images of 2 classes (names in labels.txt)\n");
  EXPECT_EQ(output_of({"convert", "mean", database, mean}),
            mean + ": mean 3x2x2 of 2 images\n" +
                "of each channel: mean_value: [25.000, 25.000, 25.000]\n");
  EXPECT_TRUE(std::filesystem::exists(mean));
  EXPECT_CONTAINS(message_of([&] {
                    run_command_line({"convert", "images", folder / "in", database});
                  }),
                  "--force");
  folder.write("in/dog/2.png", "no image");
  EXPECT_CONTAINS(
      output_of({"convert", "images", folder / "in", database, "--force", "--gray", "--skip-bad"}),
      "left out: 1, the first: ");
  EXPECT_CONTAINS(output_of({"convert", "mean", database, mean}), "mean 1x2x2 of 2 images");
}

TEST(CliConvert, MeanOfAList) {
  const TemporaryFolder folder;
  folder.write("1.png", flat_png(10));
  folder.write("2.png", flat_png(20));
  const std::string list = folder.write("list.txt", "1.png 0\n2.png 1\n");
  EXPECT_CONTAINS(output_of({"convert", "mean", list, folder / "m"}), "[15.000, 15.000, 15.000]");
  EXPECT_CONTAINS(message_of([&] {
                    run_command_line({"convert", "mean", folder / "x", "m"});
                  }),
                  "no such database or list");
}

}  // namespace
}  // namespace kinet
