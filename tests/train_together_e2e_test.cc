// `kinet train` on several processes: the same bits over every transport, and an end with a name
// and a snapshot whatever happens to one of them.
// ctest: labels=integration timeout=600 serial
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "tests/cli_ranks.h"

namespace kinet {
namespace {

constexpr double kSeconds = 120;  // for what takes a few seconds on an idle machine

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class TrainTogether : public CliRanksTest {
 protected:
  std::unique_ptr<Process> start(std::vector<std::string> more) const {
    std::vector<std::string> all{kinet_program(), "train", "solver.prototxt"};
    all.insert(all.end(), more.begin(), more.end());
    return std::make_unique<Process>(all, folder_.str());
  }

  // A run that goes on until something happens to it, well under way.
  std::unique_ptr<Process> endless(int workers, std::vector<std::string> more = {}) const {
    more.insert(more.end(),
                {"--workers", std::to_string(workers), "--out", "run", "--set",
                 "max_iter=100000000", "--set", "display=50", "--set", "test_interval=0"});
    auto run = start(more);
    EXPECT_TRUE(run->wait_for("Iteration 50 ", kSeconds)) << run->out() << run->err();
    return run;
  }
};

TEST_F(TrainTogether, TheSameBitsOverEveryTransport) {
  std::string first;
  for (const std::string transport : {"shm", "tcp", "auto"}) {
    const std::string out = "run_" + transport;
    const ProcessResult r = kinet({"train", "solver.prototxt", "--workers", "3", "--transport",
                                   transport, "--out", out, "--set", "max_iter=30"});
    ASSERT_EQ(r.status, 0) << r.out << r.err;
    EXPECT_HAS(r.out, "Workers: 3 workers on 1 machine");
    EXPECT_HAS(r.out, "over " + (transport == "auto" ? "shm" : transport));
    EXPECT_HAS(r.out, "batch 4 x 3 workers = 12");
    EXPECT_EQ(count_files(out, ".caffemodel"), 1);
    const std::string model = content(folder_ / (out + "/solver_iter_30.caffemodel"));
    ASSERT_FALSE(model.empty());
    if (first.empty()) first = model;
    EXPECT_EQ(model, first) << transport;
  }
}

TEST_F(TrainTogether, AKilledWorkerIsNamedAndTheOthersSaveTheirWork) {
  const auto run = endless(4);
  const int process = process_of(2);
  ::kill(process, SIGKILL);
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGKILL);
  EXPECT_HAS(r.err, "rank 2 (process " + std::to_string(process) + ") was killed by signal 9");
  EXPECT_HAS(r.err, "rank 2 (host");
  EXPECT_HAS(r.err, "training stops, this update is not applied; last snapshot: ");
  EXPECT_EQ(count_files("run", ".solverstate"), 1);
}

TEST_F(TrainTogether, AKilledFirstWorkerIsReplacedAsWriter) {
  const auto run = endless(3);
  ::kill(process_of(0), SIGKILL);
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGKILL);
  EXPECT_HAS(r.err, "rank 0 (host");
  EXPECT_EQ(count_files("run", ".solverstate"), 1) << r.err;
}

// The others cannot tell a stopped process from a dead one, and need not.
TEST_F(TrainTogether, AStoppedWorkerIsDeclaredLost) {
  const auto run = endless(3, {"--set", "comm_param.heartbeat_timeout=3"});
  ::kill(process_of(1), SIGSTOP);
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_NE(r.status, 0);
  EXPECT_HAS(r.err, "rank 1 (host");
  EXPECT_HAS(r.err, "no sign of life");
}

TEST_F(TrainTogether, CtrlCStopsAllAtOneIterationWithOneSnapshot) {
  const auto run = endless(3);
  run->send(SIGINT);
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGINT) << r.err;
  EXPECT_HAS(r.err, "stopping after this iteration");
  EXPECT_HAS(r.out, "--workers 3");  // of the command that goes on
  EXPECT_EQ(count_files("run", ".solverstate"), 1);
  EXPECT_EQ(r.err.find("lost"), std::string::npos) << r.err;
}

// Ranks by hand that were given different rates: both say so, and nobody trains.
TEST_F(TrainTogether, RanksThatDifferSayWhereAndEndWith2) {
  folder_.write("token", "0123456789abcdef0123456789abcdef\n");
  ::chmod((folder_ / "token").c_str(), 0600);
  const std::string address = "127.0.0.1:" + std::to_string(20000 + ::getpid() % 20000);
  std::vector<std::unique_ptr<Process>> ranks;
  for (const std::string rank : {"0", "1"}) {
    ranks.push_back(
        start({"--rank", rank, "--size", "2", "--rendezvous", address, "--token-file", "token",
               "--set", rank == "0" ? "base_lr=0.01" : "base_lr=0.02", "--out", "run"}));
  }
  for (const auto& rank : ranks) {
    const ProcessResult r = rank->wait(kSeconds);
    EXPECT_EQ(r.status, 2) << r.out << r.err;
    EXPECT_HAS(r.err, "base_lr");
    EXPECT_HAS(r.err, "0.02");
  }
  EXPECT_FALSE(exists("run"));
}

// What stops one rank while it sets up is said by the others too, and nobody has to be ended.
TEST_F(TrainTogether, AFailureWhileSettingUpIsToldToAll) {
  ASSERT_EQ(kinet({"train", "solver.prototxt", "--workers", "2", "--out", "run"}).status, 0);
  const ProcessResult r = kinet({"train", "solver.prototxt", "--workers", "2", "--out", "run"});
  EXPECT_EQ(r.status, 2);
  EXPECT_HAS(r.err, "a run lies there already");
  EXPECT_HAS(r.err, "[rank 1] kinet: rank 0 is lost: --out run: a run lies there already");
  EXPECT_EQ(r.err.find("did not end by itself"), std::string::npos) << r.err;
}

TEST_F(TrainTogether, AHangupMakesOneSnapshotAndTrainingGoesOn) {
  const auto run = endless(3);
  run->send(SIGHUP);
  ASSERT_TRUE(run->wait_for("Snapshotting solver state", kSeconds)) << run->err();
  ASSERT_TRUE(run->wait_for("Iteration 50", kSeconds));
  EXPECT_EQ(count_files("run", ".solverstate"), 1);
  run->send(SIGINT);
  EXPECT_EQ(run->wait(kSeconds).status, 128 + SIGINT);
  EXPECT_EQ(count_files("run", ".solverstate"), 2);
}

// timeout(1) and batch systems signal the launcher twice: that is no wish to lose the snapshot.
TEST_F(TrainTogether, TheSameSignalTwiceAtOnceIsOne) {
  const auto run = endless(2);
  run->send(SIGTERM);
  run->send(SIGTERM);
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGTERM) << r.err;
  EXPECT_EQ(count_files("run", ".solverstate"), 1) << r.err;
}

TEST_F(TrainTogether, AWorkerThatWakesUpLateWritesNothing) {
  const auto run = endless(3, {"--set", "comm_param.heartbeat_timeout=1"});
  const int process = process_of(1);
  ::kill(process, SIGSTOP);
  ASSERT_TRUE(run->wait_for("Snapshotting solver state", kSeconds)) << run->out() << run->err();
  ::kill(process, SIGCONT);
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_HAS(r.err, "rank 1 was declared lost");
  EXPECT_EQ(count_files("run", ".solverstate"), 1) << r.err;
}

// Three times is an order, whatever state the ranks are in.
TEST_F(TrainTogether, StoppedRanksDoNotOutliveThreeSignals) {
  const auto run = endless(2, {"--set", "comm_param.heartbeat_timeout=0"});
  for (const int rank : {0, 1}) ::kill(process_of(rank), SIGSTOP);
  for (int i = 0; i < 3; ++i) {
    run->send(SIGINT);
    ::usleep(400000);
  }
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_FALSE(r.timed_out);
  EXPECT_NE(r.status, 0);
}

// A terminal that is held, a pager that is not paged: the launcher still hears its user.
TEST_F(TrainTogether, AReaderThatDoesNotReadHoldsUpNoSignal) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // never read
  const std::string command =
      "exec '" + kinet_program() +
      "' train solver.prototxt --workers 2 --out run --set max_iter=100000000 --set display=1 "
      "--set test_interval=0 >pipe";
  Process run({"/bin/sh", "-c", command}, folder_.str());
  ::sleep(3);  // long enough to fill the pipe many times over
  for (int i = 0; i < 3; ++i) {
    run.send(SIGTERM);
    ::usleep(400000);
  }
  const ProcessResult r = run.wait(kSeconds);
  EXPECT_FALSE(r.timed_out);
  EXPECT_NE(r.status, 0);
  ::close(reader);
}

TEST_F(TrainTogether, TimesThatMakeNoSenseAreRefused) {
  for (const std::string field : {"setup_timeout=-5", "heartbeat_interval=0", "spin=-7",
                                  "heartbeat_timeout=0.1", "wait_timeout=0"}) {
    const ProcessResult r = kinet({"train", "solver.prototxt", "--workers", "2", "--set",
                                   "comm_param." + field, "--out", "run_" + field});
    EXPECT_EQ(r.status, 2) << field << r.err;
    EXPECT_HAS(r.err, field.substr(0, field.find('=')));
  }
  for (const std::string workers : {"0", "-1", "x", "70000"}) {
    EXPECT_EQ(kinet({"train", "solver.prototxt", "--workers", workers}).status, 2) << workers;
  }
}

TEST_F(TrainTogether, AnUnknownOrImpossibleTransportIsAnError) {
  ProcessResult r = kinet({"train", "solver.prototxt", "--workers", "2", "--transport", "pigeon"});
  EXPECT_EQ(r.status, 2);
  EXPECT_HAS(r.err, "pigeon");
  r = kinet({"train", "solver.prototxt", "--workers", "2", "--transport", "inproc"});
  EXPECT_NE(r.status, 0);
  EXPECT_HAS(r.err, "inproc");
}

}  // namespace
}  // namespace kinet
