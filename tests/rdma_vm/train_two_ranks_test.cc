// `kinet train` on two processes over RDMA: the same bits as over another transport, also with
// packets lost, and a killed rank is named.
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
  // The weights after 20 iterations on two ranks.
  std::string trained(const std::string& transport, const std::string& out) {
    const ProcessResult r = kinet({"train", "solver.prototxt", "--workers", "2", "--transport",
                                   transport, "--out", out, "--set", "max_iter=20", "--seed", "7"});
    EXPECT_EQ(r.status, 0) << r.out << r.err;
    EXPECT_NE(r.out.find("over " + transport), std::string::npos) << r.out;
    return content(folder_ / (out + "/solver_iter_20.caffemodel"));
  }

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

TEST_F(TrainOverRdma, TheSameBitsAsOverSharedMemory) {
  const std::string over_shm = trained("shm", "run_shm");
  ASSERT_FALSE(over_shm.empty());
  EXPECT_EQ(trained("verbs", "run_verbs"), over_shm);
  ASSERT_EQ(std::system("/usr/sbin/tc qdisc replace dev veth0 root netem loss 1%"), 0);
  EXPECT_EQ(trained("verbs", "run_lossy"), over_shm);
  ASSERT_EQ(std::system("/usr/sbin/tc qdisc del dev veth0 root"), 0);
}

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
