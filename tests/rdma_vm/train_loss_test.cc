// `kinet train` on two processes over RDMA: a killed rank is named. (run_tests.sh compares
// weights.)
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/cli_fixture.h"

namespace kinet {
namespace {

constexpr double kSeconds = 120;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TrainOverRdma : public CliTest {
 protected:
  // The rank started in this test's folder; -1: there is none.
  int process_of_rank(const std::string& rank) const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const int id = std::atoi(entry.path().filename().c_str());
      if (id <= 0) continue;
      const auto folder = std::filesystem::read_symlink(entry.path() / "cwd", ignored);
      const std::string environment = content(entry.path() / "environ");
      if (folder == std::filesystem::canonical(folder_.str(), ignored) &&
          environment.find("KINET_RANK=" + rank) != std::string::npos) {
        return id;
      }
    }
    return -1;
  }
};

TEST_F(TrainOverRdma, AKilledRankIsNamed) {
  Process run({kinet_program(), "train", "solver.prototxt", "--workers", "2", "--transport",
               "verbs", "--out", "run", "--set", "max_iter=100000000", "--set", "display=50",
               "--set", "test_interval=0"},
              folder_.str());
  ASSERT_TRUE(run.wait_for("Iteration 50 ", kSeconds)) << run.out() << run.err();
  const int process = process_of_rank("1");
  ASSERT_GT(process, 0);
  ::kill(process, SIGKILL);
  const ProcessResult r = run.wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGKILL) << r.out << r.err;
  EXPECT_NE(r.err.find("was killed by signal 9"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace kinet
