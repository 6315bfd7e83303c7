// Real processes of examples/ranks: what the end-to-end tests of launching share.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "comm/sockets.h"
#include "src/base/files.h"
#include "tests/subprocess.h"

namespace kinet {

class RanksTest : public testing::Test {
 protected:
  static constexpr double kSeconds = 60;  // for what has to come

  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kinet-ranks-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    stop_ = folder_ + "/stop";
    go_ = folder_ + "/go";
  }

  // No process may be left: each has a path of this test's folder among its arguments.
  void TearDown() override {
    const Deadline deadline(kSeconds);
    while (!processes().empty() && !deadline.passed()) usleep(5000);
    for (const int left : processes()) {
      ADD_FAILURE() << "process " << left << " is left";
      ::kill(left, SIGKILL);
    }
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<Process> start(std::vector<std::string> arguments,
                                 std::vector<std::string> before = {}) const {
    before.push_back(KINET_BINARY_DIR "/examples/ranks");
    before.insert(before.end(), arguments.begin(), arguments.end());
    return std::make_unique<Process>(before, folder_);
  }

  static void touch(const std::string& file) { std::ofstream(file).put('\n'); }

  std::vector<int> processes() const {
    std::vector<int> out;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const int id = std::atoi(entry.path().filename().c_str());
      std::ifstream file(entry.path() / "cmdline", std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      if (id > 0 && id != getpid() && text.find(folder_) != std::string::npos) out.push_back(id);
    }
    return out;
  }

  // The process of a rank, as it says at its start.
  static int process_of(const Process& launcher, int rank) {
    const std::string text = "rank " + std::to_string(rank) + ": process ";
    EXPECT_TRUE(launcher.wait_for(text, kSeconds)) << launcher.out() << launcher.err();
    const std::string out = launcher.out();
    const size_t at = out.find(text);
    return at == std::string::npos ? -1 : std::atoi(out.c_str() + at + text.size());
  }

  static void wait_until_joined(const Process& launcher, int ranks) {
    for (int r = 0; r < ranks; ++r) {
      const std::string text = "rank " + std::to_string(r) + " of " + std::to_string(ranks);
      ASSERT_TRUE(launcher.wait_for(text, kSeconds)) << launcher.out() << launcher.err();
    }
  }

  static int count(const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
  }

  std::string token_file(const std::string& name, const std::string& token) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << token << "\n";
    ::chmod(path.c_str(), 0600);
    return path;
  }

  // Free at the moment; nothing else hands out ports that were just let go of.
  static std::string free_address() {
    return local_address(listen_on({"127.0.0.1", 0}).get()).text();
  }

  std::string folder_, stop_, go_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace kinet
