// ctest: labels=unit,core timeout=60
//
// How pushes and answers come and go where it is not over the servers' links, and in one message or
// several, against formulas; and the order of the forms of elastic averaging on the modelled node
// of You, Buluc and Demmel (SC17), which docs/experiments_easgd.md has the figures of.
#include <gtest/gtest.h>

#include "src/sim/quadratic_problem.h"
#include "src/sim/virtual_cluster.h"
#include "tests/data_files.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

class EasgdNodeTest : public SolverTest {
 protected:
  // 1,000 parameters in four segments: 4 kB at 1 MB/s are 4 ms, and 1 ms for each message.
  static constexpr const char* kSlow =
      "name: 'slow' source: 'test' compute { clock: CONSTANT mean: 1 } "
      "network { preset: ideal bandwidth: 0.008 message_overhead: 1000 } "
      "server { per_push_us: 0 memory_gbytes: 1e9 ";
  static constexpr double kCopy = 0.005, kCopies = 0.008;  // in one message, in four

  VirtualResult run(Problem& problem, const ClusterProfile& cluster, const std::string& sync,
                    bool packed, int workers, int iterations) const {
    VirtualSpec s;
    s.config = SolverConfig::parse(
        solver_text(net(), fmt::format("base_lr: 0.05 test_interval: 0 max_iter: {} {} comm_param "
                                       "{{ packed: {} }} sync_param {{ {} }}",
                                       iterations, kNoSnapshot, packed ? "true" : "false", sync)),
        "test solver");
    s.cluster = cluster;
    s.workers = workers;
    s.end = iterations;
    s.measure_gap = false;
    return run_virtual(problem, s, nullptr);
  }
  // Seconds of an iteration, once all is going.
  double pace(const std::string& server, const std::string& sync, bool packed, int workers) const {
    QuadraticSettings settings;
    settings.dimension = 1000;
    settings.segments = 4;
    QuadraticProblem problem(settings, 7);
    const ClusterProfile profile =
        ClusterProfile::load(folder_.write("cluster.prototxt", kSlow + server + " }"), 7);
    return (run(problem, profile, sync, packed, workers, 30).seconds -
            run(problem, profile, sync, packed, workers, 10).seconds) /
           20;
  }
  struct Form {
    double seconds = 0, communication = 0;
  };
  static ClusterProfile node(const std::string& name, const std::vector<std::string>& set = {}) {
    return ClusterProfile::load(
        fmt::format("{}/models/clusters/{}.prototxt", KINET_SOURCE_DIR, name), 7, set);
  }
  Form form(const ClusterProfile& cluster, const std::string& sync, bool packed) const {
    const auto problem = load_objective(
        std::string(KINET_SOURCE_DIR) + "/models/objectives/lenet_sized.prototxt", 7);
    const VirtualResult r = run(*problem, cluster, sync, packed, 4, 12);
    return {r.seconds / static_cast<double>(r.samples), 1 - r.compute_seconds / (4 * r.seconds)};
  }
};

TEST_F(EasgdNodeTest, AMessageForEachParameter) {
  const std::string level1 = "model: 'sync_easgd' easgd_level: 1";
  // One worker over links: a push up and an answer down.
  EXPECT_NEAR(pace("", level1, true, 1), 1 + 2 * kCopy, 1e-4);
  EXPECT_NEAR(pace("", level1, false, 1), 1 + 2 * kCopies, 1e-4);
  // Two servers have half of it each, but it is the worker's link that carries all: two messages.
  const std::string two = " servers: 2";
  EXPECT_NEAR(pace("", level1 + two, true, 1), 1 + 2 * 0.006, 1e-4);
  EXPECT_NEAR(pace("", level1 + two, false, 1), 1 + 2 * kCopies, 1e-4);
}

TEST_F(EasgdNodeTest, AServerThatCopiesDoesNothingElse) {
  // Steps of a second hide what the other workers' exchanges take: each has its own on top.
  EXPECT_NEAR(pace("exchange: COPIES", "model: 'easgd'", true, 1), 1 + 2 * kCopy, 1e-4);
  // A round of all: every push, then every answer.
  const std::string level1 = "model: 'sync_easgd' easgd_level: 1";
  EXPECT_NEAR(pace("exchange: COPIES", level1, true, 4), 1 + 8 * kCopy, 1e-3);
  // Two hundred workers keep it busy for longer than a step.
  EXPECT_NEAR(pace("exchange: COPIES", "model: 'easgd'", true, 200), 400 * kCopy, 1e-2);
}

TEST_F(EasgdNodeTest, TreesTakeTheLogarithm) {
  const std::string level1 = "model: 'sync_easgd' easgd_level: 1";
  const std::string level3 = "model: 'sync_easgd' easgd_level: 3";
  // Four workers and the server: three stages up and three down.
  EXPECT_NEAR(pace("exchange: TREE", level1, true, 4), 1 + 6 * kCopy, 1e-4);
  EXPECT_NEAR(pace("exchange: TREE resident: true", level1, true, 4), 1 + 4 * kCopy, 1e-4);
  EXPECT_NEAR(pace("exchange: TREE resident: true", level1, false, 16), 1 + 8 * kCopies, 1e-4);
  EXPECT_NEAR(pace("exchange: TREE", level3, true, 4), 1, 1e-4);  // hidden
  // Who is asked alone has nobody to wait for.
  const double links = pace("", "model: 'asp'", true, 3);
  EXPECT_DOUBLE_EQ(pace("exchange: TREE", "model: 'asp'", true, 3), links);
}

TEST_F(EasgdNodeTest, OriginalThenOneTwoThree) {
  const Form original = form(node("sc17_node"), "model: 'easgd'", false);
  const Form first =
      form(node("sc17_node", {"server.exchange=TREE"}), "model: 'sync_easgd' easgd_level: 1", true);
  const Form second = form(node("sc17_node_p2p"), "model: 'sync_easgd' easgd_level: 2", true);
  const Form third = form(node("sc17_node_p2p"), "model: 'sync_easgd' easgd_level: 3", true);
  EXPECT_GT(original.seconds, 1.2 * first.seconds);
  EXPECT_GT(first.seconds, 1.2 * second.seconds);
  EXPECT_GT(second.seconds, 1.1 * third.seconds);
  EXPECT_GT(original.communication, first.communication);
  EXPECT_GT(first.communication, second.communication);
  EXPECT_GT(second.communication, third.communication);
}

TEST_F(EasgdNodeTest, OneServerCopies) {
  QuadraticProblem problem({}, 7);
  const ClusterProfile profile = ClusterProfile::load(
      folder_.write("cluster.prototxt", std::string(kSlow) + "exchange: COPIES }"), 7);
  const std::string message =
      message_of([&] { run(problem, profile, "model: 'easgd' servers: 2", true, 2, 5); });
  EXPECT_NE(message.find("one server"), std::string::npos) << message;
}

}  // namespace
}  // namespace kinet
