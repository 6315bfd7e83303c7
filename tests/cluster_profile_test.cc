// ctest: labels=unit,core timeout=60
//
// Cluster profiles: units, defaults, every fault of a file in one run, and the profiles that come
// with kinet.
#include "src/sim/cluster_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "src/base/files.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

class ClusterProfileTest : public testing::Test {
 protected:
  ClusterProfile load(const std::string& text, const std::vector<std::string>& set = {}) {
    return ClusterProfile::load(folder_.write("c.prototxt", text), 3, set);
  }
  std::string fault(const std::string& text) {
    return message_of([&] { load(text); });
  }
  TemporaryFolder folder_;
};

TEST_F(ClusterProfileTest, FieldsBecomeSecondsAndBytes) {
  folder_.write("times/steps.csv", "0,0.5\n1,1.5\n");
  const ClusterProfile p = load(R"(
    name: "lab" source: "made up"
    compute { clock: TRACE trace: "times/steps.csv" slow_probability: 0.5 slow_factor: 3
              slow { worker: 1 factor: 2 } }
    network { preset: qdr latency: 4 ranks_per_node: 2 }
    server { per_push_us: 5 memory_gbytes: 2 }
    event { kind: JOIN at: 9 worker: 1 }
    event { kind: LEAVE at: 2.5 worker: 1 }
  )");
  EXPECT_EQ(p.name, "lab");
  EXPECT_EQ(p.source, "made up");
  EXPECT_DOUBLE_EQ(p.steps->mean(), 2);
  EXPECT_DOUBLE_EQ(p.link.network.latency, 4e-6);
  EXPECT_NEAR(p.link.network.bandwidth, 1e9 / 0.3, 1);
  EXPECT_EQ(p.link.ranks_per_node, 2);
  EXPECT_DOUBLE_EQ(p.server.seconds(1'000'000, 3), 5e-6 + 1.5e-3);
  ASSERT_EQ(p.events.size(), 2U);
  EXPECT_EQ(p.events[0].kind, ClusterEvent::Kind::kLeave);
  EXPECT_DOUBLE_EQ(p.events[0].at, 2.5);
  EXPECT_EQ(p.events[1].kind, ClusterEvent::Kind::kJoin);
  EXPECT_EQ(p.events[1].worker, 1);
  EXPECT_CONTAINS(p.describe(), "lab: a gradient takes 1 s, 2 recorded steps of 2 workers");
}

TEST_F(ClusterProfileTest, LittleIsNeeded) {
  const ClusterProfile p = load("compute { mean: 0.25 }");
  EXPECT_EQ(p.name, "c");
  EXPECT_EQ(p.steps->seconds(5, 6), 0.25);
  EXPECT_DOUBLE_EQ(p.link.network.latency, 0.7e-6);  // fdr
  EXPECT_DOUBLE_EQ(p.server.per_push, 0);
  EXPECT_TRUE(p.events.empty());
}

TEST_F(ClusterProfileTest, FieldsMayBeSetOverTheFile) {
  const ClusterProfile p = load("compute { clock: GAMMA mean: 0.25 }",
                                {"compute.mean=2", "network.preset=shm", "compute.clock=CONSTANT"});
  EXPECT_EQ(p.steps->seconds(0, 0), 2);
  EXPECT_DOUBLE_EQ(p.link.network.latency, 0.5e-6);
}

TEST_F(ClusterProfileTest, AllFaultsAreToldAtOnce) {
  const std::string kinds = fault("compute { clok: GAMMA mean: \"x\" }\nservr { }\n");
  EXPECT_CONTAINS(kinds, "did you mean 'clock'?");
  EXPECT_CONTAINS(kinds, "c.prototxt:1:29");
  EXPECT_CONTAINS(kinds, "did you mean 'server'?");
  const std::string values = fault(R"(compute {
    clock: GAMMA
    shape: 0.5
    slow_probability: 2
    slow { worker: 1 factor: 0 }
    slow { worker: 1 factor: 1 }
    slow { worker: 2 }
  }
  network { latency: -1 }
  server { memory_gbytes: 0 per_push_us: -1 }
  event { at: -1 worker: 3 }
  event { at: 2 worker: 3 }
  )");
  for (const char* part :
       {"c.prototxt:1:1: compute: the mean is missing", "c.prototxt:3:12: clock GAMMA has no shape",
        "shape above 1", "c.prototxt:4:23: slow_probability 2", "c.prototxt:5:30: factor 0",
        "worker 1 is named twice", "c.prototxt:7:5: slow: factor is missing",
        "c.prototxt:9:22: latency", "memory_gbytes must be above 0", "per_push_us may not",
        "at 0 seconds or later", "worker 3 leaves a second time"}) {
    EXPECT_CONTAINS(values, part);
  }
  EXPECT_CONTAINS(fault(""), "c.prototxt: there is no compute { }");
}

TEST_F(ClusterProfileTest, ClocksAskForWhatTheyNeed) {
  EXPECT_CONTAINS(fault("compute { clock: TRACE }"), "needs a file of step times");
  EXPECT_CONTAINS(fault("compute { clock: TRACE trace: \"none.csv\" }"), "none.csv");
  EXPECT_CONTAINS(fault("compute { clock: SHIFTED_EXPONENTIAL mean: 1 }"), "needs a shift");
  EXPECT_CONTAINS(fault("compute { clock: SHIFTED_EXPONENTIAL mean: 1 shift: 1 }"),
                  "below the mean");
  EXPECT_CONTAINS(fault("compute { clock: GAMMA mean: 1 machine_variation: 1 }"),
                  "or clock: MACHINES");
  EXPECT_CONTAINS(fault("compute { clock: PARETO mean: 1 shape: 1 }"), "above 1");
  EXPECT_EQ(load("compute { clock: SHIFTED_EXPONENTIAL mean: 1 shift: 0.5 }").steps->mean(), 1);
}

TEST_F(ClusterProfileTest, ThoseThatComeWithKinetAreWholeAndNameTheirSources) {
  const std::filesystem::path folder = std::filesystem::path(KINET_SOURCE_DIR) / "models/clusters";
  const std::string readme = read_file(folder / "README.md");
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".prototxt") continue;
    ++count;
    const ClusterProfile p = ClusterProfile::load(entry.path().string(), 1);
    EXPECT_EQ(p.name, entry.path().stem().string());
    EXPECT_GT(p.source.size(), 20U) << p.name;
    EXPECT_GT(p.server.per_push, 0) << p.name;
    EXPECT_CONTAINS(readme, "[" + p.name + "]");
  }
  EXPECT_GE(count, 7);
}

}  // namespace
}  // namespace kinet
