// `kinet compare` from the file to the page, on a quadratic and on a small net: the table, resuming
// after Ctrl-C and after a kill, changes that compute only what they change.
// ctest: labels=integration timeout=300
#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/cli_fixture.h"

namespace kinet {
namespace {

using Json = nlohmann::json;

constexpr double kSeconds = 100;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

constexpr const char* kExperiment = R"(
name: "tiny" objective: "objective.prototxt" cluster: "even.prototxt" cluster: "mixed.prototxt"
workers: [2, 4] max_iter: 60 tests: 12
rate: [0.05, 0.1, 0.2] tune_seed: 1 halving { rungs: 2 } seed: [11, 12]
target_from: "bsp" margin: 0.5 candidate: "asp"
strategy { name: "bsp" sync_param { model: "bsp" } }
strategy { name: "asp" sync_param { model: "asp" } }
)";

class Compared : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    folder_.write("objective.prototxt", "objective { quadratic { dimension: 20 noise: 0.1 } }\n");
    folder_.write("even.prototxt",
                  "compute { clock: CONSTANT mean: 0.01 } network { preset: fdr }\n");
    folder_.write("mixed.prototxt",
                  "compute { clock: MACHINES mean: 0.01 } network { preset: fdr }\n");
    folder_.write("tiny.prototxt", kExperiment);
  }

  ProcessResult compare(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"compare", "tiny.prototxt", "--out", "out"};
    all.insert(all.end(), more.begin(), more.end());
    return kinet(all);
  }

  std::string file(const std::string& name) const { return read_file(folder_ / name); }
  void replace(const std::string& from, const std::string& to) const {
    std::string text = kExperiment;
    text.replace(text.find(from), from.size(), to);
    folder_.write("tiny.prototxt", text);
  }
};

// 4 settings x 2 strategies x (3 rates at half the length, 2 at the whole) and 2 seeds.
constexpr int kRuns = 8 * (3 + 2 + 2);

TEST_F(Compared, MakesTheTableAndThePage) {
  const ProcessResult r = compare();
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_HAS(r.out, "tuning, rung 1 of 2");
  EXPECT_HAS(r.out, std::to_string(kRuns) + " runs computed, 0 found");
  EXPECT_EQ(count_files("out/cells", ".json"), kRuns);
  const std::string table = file("out/table.md");
  EXPECT_HAS(table, "## mixed, 4 workers");
  EXPECT_HAS(table, "modelled");
  EXPECT_HAS(file("out/report.html"), "<svg");
  const Json results = Json::parse(file("out/results.json"));
  ASSERT_EQ(results["settings"].size(), 4u);
  // Alike, bsp loses nothing by waiting: 60 rounds of 0.01 s and an all-reduce.
  const Json& even = results["settings"][1]["rows"][0];
  EXPECT_NEAR(even["run_seconds"]["mean"].get<double>(), 0.6, 0.01);
  // In an all-reduce each of 4 sends 3/4 of 20 floats twice.
  EXPECT_EQ(even["bytes"]["mean"], 60 * 2 * 3 * 20 * 4);
  // Among machines that differ, it waits for the slowest; asp does not.
  const Json& mixed = results["settings"][3]["rows"];
  EXPECT_LT(mixed[1]["run_seconds"]["mean"], mixed[0]["run_seconds"]["mean"]);
  EXPECT_GT(mixed[1]["lag"]["mean"], 0.5);
  EXPECT_EQ(mixed[0]["lag"]["mean"], 0);
}

TEST_F(Compared, OnceComputedIsFoundAndAChangeComputesItsOwn) {
  ASSERT_EQ(compare({"--quiet", "--jobs", "1"}).status, 0);
  const std::string table = file("out/table.md");
  ProcessResult r = compare({"--jobs", "3"});
  EXPECT_HAS(r.out, "0 runs computed, " + std::to_string(kRuns) + " found");
  EXPECT_EQ(file("out/table.md"), table);
  replace("model: \"asp\"", "model: \"ssp\"");
  r = compare();
  EXPECT_HAS(r.out, std::to_string(kRuns / 2) + " runs computed");
  replace("seed: [11, 12]", "seed: [11, 12, 13]");
  r = compare();
  EXPECT_HAS(r.out, "8 runs computed");
}

TEST_F(Compared, JobsDoNotChangeAFigure) {
  ASSERT_EQ(compare({"--jobs", "1"}).status, 0);
  const std::string csv = file("out/table.csv");
  std::filesystem::remove_all(folder_ / "out");
  ASSERT_EQ(compare({"--jobs", "4"}).status, 0);
  EXPECT_EQ(file("out/table.csv"), csv);
}

TEST_F(Compared, CtrlCKeepsWhatIsFinished) {
  replace("max_iter: 60 tests: 12", "max_iter: 6000 tests: 60");
  Process run({kinet_program(), "compare", "tiny.prototxt", "--out", "out", "--jobs", "1"},
              folder_.str());
  ASSERT_TRUE(run.wait_for("] 3 of ", kSeconds)) << run.out() << run.err();
  run.send(SIGINT);
  const ProcessResult r = run.wait(kSeconds);
  EXPECT_FALSE(r.timed_out);
  EXPECT_EQ(r.status, 128 + SIGINT) << r.out << r.err;
  EXPECT_HAS(r.err, "runs that are finished are kept");
  EXPECT_HAS(r.out, "Go on with:\n  kinet compare tiny.prototxt --out out");
  const int kept = count_files("out/cells", ".json");
  EXPECT_GE(kept, 3);
  EXPECT_LT(kept, kRuns);
  const ProcessResult rest = compare();
  EXPECT_HAS(rest.out,
             std::to_string(kRuns - kept) + " runs computed, " + std::to_string(kept) + " found");
}

TEST_F(Compared, OnlyAndDryRun) {
  ProcessResult r = compare({"--dry-run"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "at most");
  EXPECT_FALSE(exists("out"));
  r = compare({"--only", "bsp, even, 2"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, std::to_string(kRuns / 8) + " runs computed");
  EXPECT_HAS(file("out/table.md"), "not run");
}

TEST_F(Compared, ANetIsTestedByItsAccuracy) {
  folder_.write("tiny.prototxt",
                "solver: 'solver.prototxt' cluster: 'even.prototxt' workers: 2 epochs: 4 tests: 2\n"
                "seed: 1 target: 0.01 strategy { name: 'bsp' }\n"
                "strategy { name: 'each' sync_param { model: 'asgd' push_weight: 1 } }\n");
  const ProcessResult r = compare();
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  const Json rows = Json::parse(file("out/results.json"))["settings"][0]["rows"];
  // 4 epochs of 20 images, whatever an iteration is.
  EXPECT_EQ(rows[0]["samples"]["mean"], 80);
  EXPECT_NEAR(rows[1]["samples"]["mean"].get<double>(), 80, 4);
}

TEST_F(Compared, WhatCannotBeSaysWhy) {
  const auto error = [&](const std::vector<std::string>& more) {
    const ProcessResult r = compare(more);
    EXPECT_EQ(r.status, 2) << r.out << r.err;
    return r.err;
  };
  EXPECT_HAS(error({"--only", "("}), "no regular expression");
  replace("max_iter: 60", "epochs: 3");
  EXPECT_HAS(error({}), "no epochs\nhint: max_iter");
  replace("max_iter: 60", "max_iter: 60 measure: ACCURACY");
  EXPECT_HAS(error({}), "no accuracy");
  folder_.write("even.prototxt", "compute { clock: GAMA }\n");
  replace("max_iter: 60", "max_iter: 50");
  EXPECT_HAS(error({}), "even.prototxt:1:");
  EXPECT_FALSE(exists("out"));
}

}  // namespace
}  // namespace kinet
