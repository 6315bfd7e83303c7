// ctest: labels=integration timeout=600 serial
//
// The bundled quick solver learns real images: LeNet on Fashion-MNIST, 2,500 iterations, at least
// 0.88 of the 10,000 test images right. The images are the Debian package dataset-fashion-mnist,
// which `make deps` installs; their absence is a failure, not a reason to skip.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/subprocess.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

TEST(LenetQuick, LearnsFashionMnist) {
  const fs::path out = fs::temp_directory_path() / "kinet_lenet_quick";
  fs::remove_all(out);
  const ProcessResult result =
      run_kinet({"train", std::string(KINET_SOURCE_DIR) + "/models/lenet/solver_quick.prototxt",
                 "--seed", "1", "--out", out.string()},
                fs::temp_directory_path().string(), 580);
  ASSERT_EQ(result.status, 0) << result.err;
  double accuracy = 0, seconds = 0;
  std::ifstream lines(out / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("type") == "test") {
      accuracy = record.at("outputs").at("accuracy");
      EXPECT_EQ(record.at("items"), 10000);
    }
    if (record.at("type") == "finish") seconds = record.at("seconds");
  }
  std::printf("final test accuracy %.4f after %.0f s\n", accuracy, seconds);
  EXPECT_GE(accuracy, 0.88);
  EXPECT_LT(accuracy, 0.97) << "too good to be true for LeNet on Fashion-MNIST";
  fs::remove_all(out);
}

}  // namespace
}  // namespace kinet
