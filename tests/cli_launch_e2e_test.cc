// kinet train as several ranks: what is compared before anything is computed, and who says what.
// ctest: labels=integration timeout=300
#include <sys/stat.h>

#include "comm/sockets.h"
#include "src/cli/run_fingerprint.h"
#include "tests/cli_fixture.h"

namespace kinet {
namespace {

constexpr double kSeconds = 60;

class CliLaunch : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    folder_.write("token", "0123456789abcdef0123456789abcdef\n");
    ::chmod((folder_ / "token").c_str(), 0600);
    address_ = local_address(listen_on({"127.0.0.1", 0}).get()).text();
  }

  std::unique_ptr<Process> rank(int rank, std::vector<std::string> more) const {
    std::vector<std::string> all{kinet_program(), "train", "--rank",       std::to_string(rank),
                                 "--size",        "2",     "--rendezvous", address_,
                                 "--token-file",  "token", "--threads",    "1"};
    all.insert(all.end(), more.begin(), more.end());
    return std::make_unique<Process>(all, folder_.str());
  }

  void expect_both_say(const std::string& text, const std::vector<std::string>& zero,
                       const std::vector<std::string>& one) const {
    const auto first = rank(0, zero);
    const auto second = rank(1, one);
    for (const auto* process : {&first, &second}) {
      const ProcessResult r = (*process)->wait(kSeconds);
      EXPECT_EQ(r.status, 2);
      EXPECT_EQ(r.err, "kinet: the ranks differ: " + text + "\n");
    }
  }

  std::string address_;
};

TEST_F(CliLaunch, TheFirstDifferenceIsSaidByEveryRank) {
  expect_both_say("solver field base_lr: rank 1 has 0.02, rank 0 has 0.01", {"solver.prototxt"},
                  {"solver.prototxt", "--set", "base_lr=0.02"});
}

TEST_F(CliLaunch, SeedsAreCompared) {
  expect_both_say("--seed: rank 1 has none, rank 0 has 7", {"solver.prototxt", "--seed", "7"},
                  {"solver.prototxt"});
}

TEST_F(CliLaunch, NetsAreComparedByTheirContent) {
  std::string net = kTinyNet;
  net.replace(net.find("num_output: 10"), 14, "num_output: 12");
  folder_.write("other/net.prototxt", net);
  folder_.write("other/solver.prototxt", kTinySolver);
  write_counting_idx(folder_, 20, 6, 6);
  expect_both_say("train net, layer 'ip': rank 1 has num_output: 12, rank 0 has num_output: 10",
                  {"solver.prototxt"}, {"other/solver.prototxt"});
}

TEST_F(CliLaunch, DataIsComparedByItsContent) {
  const auto config = SolverConfig::load((folder_ / "solver.prototxt"));
  const Fingerprint before = run_fingerprint(*config, {});
  std::string labels = read_file(folder_ / "labels-idx1");
  labels.back() ^= 1;
  folder_.write("labels-idx1", labels);
  const Fingerprint after = run_fingerprint(*config, {});
  ASSERT_EQ(before.size(), after.size());
  std::vector<std::string> differ;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i]) differ.push_back(before[i].first);
  }
  EXPECT_EQ(differ, std::vector<std::string>{"file 'labels-idx1'"});
}

TEST_F(CliLaunch, WhatTheLauncherCanSeeItSaysAlone) {
  const ProcessResult r = kinet({"train", "no.prototxt", "--workers", "3"});
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err.rfind("kinet: no.prototxt: no such file", 0), 0U) << r.err;
  const ProcessResult unknown = kinet({"train", "solver.prototxt", "--transport", "shn"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("did you mean 'shm'"), std::string::npos) << unknown.err;
}

TEST_F(CliLaunch, OneWorkerIsAPlainRun) {
  const ProcessResult r = kinet({"train", "solver.prototxt", "--workers", "1", "--out", "run"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(exists("run/solver_iter_3.caffemodel"));
}

}  // namespace
}  // namespace kinet
