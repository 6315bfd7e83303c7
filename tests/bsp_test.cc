// Training together by all-reduce: workers as threads of this process, over inproc.
// ctest: labels=unit,core,threads timeout=120
#include "src/sync/bsp.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/bsp_workers.h"

namespace kinet {
namespace {

using BspTest = BspWorkersTest;

const std::string kFields =
    "base_lr: 0.1 momentum: 0.9 weight_decay: 0.001 max_iter: 50 display: 10 random_seed: 5 ";
const std::string kDropout =
    "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' }\n" + kRelu;

// The law of synchronous training: N workers of batch B are one worker of batch N B, masks of
// Dropout included, since these follow the sample.
TEST_F(BspTest, WorkersMakeTheUpdateOfOneWithTheirBatchesTogether) {
  for (const int workers : {2, 3, 4}) {
    const auto together = train(solver_text(net(kDropout, 3), kFields + kNoSnapshot), workers);
    TestRun alone(solver_text(net(kDropout, 3 * workers), kFields + kNoSnapshot), options_);
    alone.run();
    for (const BspWorker& w : together) {
      ASSERT_EQ(w.error, "");
      EXPECT_EQ(w.end.iteration, 50);
      EXPECT_LE(distance(state_of(*w.run->solver), state_of(*alone.solver)), 1e-5) << workers;
      EXPECT_EQ(state_of(*w.run->solver), state_of(*together[0].run->solver));  // every bit
    }
    // The displayed loss is the mean over all workers' samples.
    ASSERT_EQ(together[0].run->seen.displays.size(), alone.seen.displays.size());
    for (size_t i = 0; i < alone.seen.displays.size(); ++i) {
      EXPECT_NEAR(together[0].run->seen.displays[i].loss, alone.seen.displays[i].loss, 1e-4);
      EXPECT_NEAR(together[0].run->seen.displays[i].epoch, alone.seen.displays[i].epoch, 1e-9);
    }
  }
}

TEST_F(BspTest, TheSameSeedGivesTheSameBits) {
  const std::string text = solver_text(net(kDropout, 3), kFields + kNoSnapshot);
  EXPECT_EQ(state_of(*train(text, 3)[0].run->solver), state_of(*train(text, 3)[1].run->solver));
}

TEST_F(BspTest, ResumesBitForBit) {
  const auto whole = train(solver_text(net(kRelu, 3), kFields + "snapshot: 20"), 2);
  options_.resume = folder_ / "solver_iter_20.solverstate";
  const auto rest = train(solver_text(net(kRelu, 3), kFields + kNoSnapshot), 2);
  ASSERT_EQ(rest[1].error, "");
  EXPECT_EQ(state_of(*whole[0].run->solver), state_of(*rest[1].run->solver));
}

TEST_F(BspTest, WorkerZeroAloneTellsOfTestsAndWritesSnapshots) {
  const auto w = train(solver_text(net(), kFields + "test_interval: 25 snapshot: 25"), 3);
  EXPECT_EQ(w[0].run->seen.tests.size(), 3u);
  EXPECT_EQ(w[0].run->seen.snapshots.size(), 2u);
  for (const int r : {1, 2}) {
    EXPECT_TRUE(w[r].run->seen.tests.empty());
    EXPECT_TRUE(w[r].run->seen.snapshots.empty());
  }
}

// Each scores a share; the record is that of one who scores all, with the same weights.
TEST_F(BspTest, ATestInSharesGivesTheRecordOfOneWorker) {
  const std::string fields = kFields + kNoSnapshot + " test_interval: 25";
  for (const int workers : {2, 3, 4}) {
    const auto w = train(solver_text(net(kRelu, 3, 2), fields), workers);
    ASSERT_EQ(w[0].error, "");
    ASSERT_EQ(w[0].run->seen.tests.size(), 3u);
    const TestRecord& shared = w[0].run->seen.tests.back();
    const TestRecord alone = w[1].run->solver->test().at(0);  // the last test's weights
    EXPECT_EQ(shared.iteration, 50);
    EXPECT_EQ(shared.items, 7);
    EXPECT_EQ(shared.coverage, "");
    EXPECT_NEAR(shared.loss, alone.loss, 1e-12 * alone.loss);
    ASSERT_EQ(shared.outputs.size(), alone.outputs.size());
    for (size_t i = 0; i < alone.outputs.size(); ++i) {
      EXPECT_NEAR(shared.outputs[i].value, alone.outputs[i].value, 1e-12);
    }
  }
}

TEST_F(BspTest, SeveralTestNetsEachWithItsBatches) {
  const std::string fields = kFields + kNoSnapshot + "test_interval: 50 test_iter: 2 test_iter: 5";
  const auto w = train(solver_text(net(kRelu, 3, 2), fields), 3);
  ASSERT_EQ(w[0].error, "");
  const std::vector<TestRecord>& shared = w[0].run->seen.tests;
  const std::vector<TestRecord> alone = w[2].run->solver->test();
  ASSERT_EQ(shared.size(), 4u);  // two at the start, two at the end
  ASSERT_EQ(alone.size(), 2u);
  for (const int i : {0, 1}) {
    EXPECT_EQ(shared[2 + i].net, i);
    EXPECT_EQ(shared[2 + i].items, alone[i].items);
    EXPECT_EQ(shared[2 + i].coverage, alone[i].coverage);
    EXPECT_NEAR(shared[2 + i].loss, alone[i].loss, 1e-12 * alone[i].loss);
  }
}

TEST_F(BspTest, AllDecideAlikeWhetherToStopEarly) {
  const std::string fields =
      "base_lr: 1e-9 max_iter: 50 random_seed: 5 test_interval: 5 "
      "early_stop_param { metric: 'accuracy' patience: 2 }";
  const auto w = train(solver_text(net(), fields + kNoSnapshot), 3);
  for (const BspWorker& worker : w) {
    ASSERT_EQ(worker.error, "");
    EXPECT_EQ(worker.end.iteration, 10);
    EXPECT_EQ(worker.end.reason, w[0].end.reason);
    EXPECT_EQ(worker.end.reason.substr(0, 10), "early stop");
  }
}

// The last but one wants to stop just when a test is due: no test, all stop there.
TEST_F(BspTest, AWishToStopEndsATestOfAll) {
  const std::string fields = kFields + "test_initialization: false test_interval: 25";
  for (const int wisher : {0, 1}) {
    const auto w = train(solver_text(net(), fields), 3, [wisher](int rank, TestRun& run) {
      run.seen.after_iteration = [=, &run](int64_t iteration) {
        if (rank == wisher && iteration == 25) run.control.stop = true;
      };
    });
    EXPECT_TRUE(w[0].run->seen.tests.empty());
    for (const BspWorker& worker : w) {
      ASSERT_EQ(worker.error, "");
      EXPECT_EQ(worker.end.iteration, 25);
      EXPECT_EQ(worker.end.reason, "interrupted");
    }
  }
}

// A data set that one of them cannot read ends the test, and the run, of all.
TEST_F(BspTest, AWorkerThatFailsInATestEndsTheRunOfAll) {
  const std::string fields = kFields + "test_initialization: false test_interval: 25";
  const auto w = train(solver_text(net(), fields), 3, [](int rank, TestRun& run) {
    run.seen.after_iteration = [rank](int64_t iteration) {
      if (rank == 2 && iteration == 25) throw Error("no more disk", Error::Kind::kRuntime);
    };
  });
  for (const int r : {0, 1}) {
    EXPECT_NE(w[r].error.find("no more disk"), std::string::npos) << w[r].error;
    EXPECT_EQ(w[r].run->solver->iteration(), 25);
  }
  ASSERT_EQ(w[0].run->seen.snapshots.size(), 1u);
  EXPECT_EQ(w[0].run->seen.snapshots[0].first, 25);
}

// Gradients take at least the time that they are said to take; and nothing else changes.
TEST_F(BspTest, ASlowWorkerTakesItsTime) {
  const std::string text =
      solver_text(net(), "base_lr: 0.1 max_iter: 10 random_seed: 5" + kNoSnapshot);
  const auto quick = train(text, 2);
  std::atomic<int> asked{0};
  options_.step_seconds = [&asked] { return ++asked, 1e-3; };
  options_.slow_factor = 20;
  const auto w = train(text, 2);
  ASSERT_EQ(w[1].error, "");
  EXPECT_EQ(asked, 20);
  EXPECT_GE(w[0].end.seconds, 10 * 20 * 1e-3);
  EXPECT_EQ(state_of(*w[1].run->solver), state_of(*quick[1].run->solver));
}

// Whoever is asked to stop, all stop at one iteration, and the state can be resumed.
TEST_F(BspTest, AllStopAtOneIteration) {
  const auto w = train(solver_text(net(), kFields), 3, [](int rank, TestRun& run) {
    run.seen.after_iteration = [rank, &run](int64_t iteration) {
      if (rank == 2 && iteration == 17) run.control.stop = true;
    };
  });
  for (const BspWorker& worker : w) {
    ASSERT_EQ(worker.error, "");
    EXPECT_EQ(worker.end.iteration, 17);
    EXPECT_EQ(worker.end.reason, "interrupted");
  }
  ASSERT_EQ(w[0].run->seen.snapshots.size(), 1u);
  EXPECT_EQ(w[0].run->seen.snapshots[0].first, 17);
}

TEST_F(BspTest, AWishForASnapshotOfAnyWorkerIsGranted) {
  const auto w = train(solver_text(net(), kFields + kNoSnapshot), 2, [](int rank, TestRun& run) {
    run.seen.after_iteration = [rank, &run](int64_t iteration) {
      if (rank == 1 && iteration == 30) run.control.snapshot = true;
    };
  });
  ASSERT_EQ(w[0].run->seen.snapshots.size(), 1u);
  EXPECT_EQ(w[0].run->seen.snapshots[0].first, 31);
}

// A rate that makes one worker's loss infinite ends the run of all with the same weights, and the
// message names the place on the worker that saw it.
TEST_F(BspTest, NotFiniteStopsAllTogether) {
  const auto w =
      train(solver_text(net(), "base_lr: 1e30 max_iter: 50 random_seed: 5" + kNoSnapshot), 2);
  for (const BspWorker& worker : w) {
    EXPECT_NE(worker.error.find("not finite"), std::string::npos) << worker.error;
    EXPECT_EQ(worker.run->solver->iteration(), w[0].run->solver->iteration());
  }
}

// The others save what they have and name the one that went away.
TEST_F(BspTest, ALostWorkerEndsTheRunWithASnapshot) {
  const auto w = train(solver_text(net(), kFields), 3, [](int rank, TestRun& run) {
    run.seen.after_iteration = [rank](int64_t iteration) {
      if (rank == 1 && iteration == 20) throw Error("the power is gone", Error::Kind::kRuntime);
    };
  });
  for (const int r : {0, 2}) {
    EXPECT_NE(w[r].error.find("rank 1"), std::string::npos) << w[r].error;
    EXPECT_NE(w[r].error.find("the power is gone"), std::string::npos) << w[r].error;
    EXPECT_EQ(w[r].run->solver->iteration(), 20);
  }
  ASSERT_EQ(w[0].run->seen.snapshots.size(), 1u);
  EXPECT_EQ(w[0].run->seen.snapshots[0].first, 20);
}

}  // namespace
}  // namespace kinet
