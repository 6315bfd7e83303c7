// Tests that run `kinet --workers N` and look for its ranks: by folder and environment, in /proc.
#pragma once

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cli_fixture.h"

namespace kinet {

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CliRanksTest : public CliTest {
 protected:
  // No rank may be left: each has this test's folder as its current one.
  void TearDown() override {
    for (const int process : processes("")) {
      ADD_FAILURE() << "process " << process << " is left";
      ::kill(process, SIGKILL);
    }
  }

  // kinet processes in this test's folder whose environment holds `variable`.
  std::vector<int> processes(const std::string& variable) const {
    std::vector<int> out;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const int id = std::atoi(entry.path().filename().c_str());
      if (id <= 0) continue;
      const auto cwd = std::filesystem::read_symlink(entry.path() / "cwd", ignored);
      const std::string environment = content(entry.path() / "environ");
      const bool ours = !ignored && cwd == std::filesystem::canonical(folder_.str(), ignored);
      if (ours && environment.find(variable) != std::string::npos) out.push_back(id);
    }
    return out;
  }

  int process_of(int rank) const {
    const std::vector<int> found = processes("KINET_RANK=" + std::to_string(rank));
    EXPECT_EQ(found.size(), 1U) << "rank " << rank;
    return found.empty() ? -1 : found.front();
  }
};

}  // namespace kinet
