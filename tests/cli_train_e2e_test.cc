// `kinet train` as its user meets it: the log, the run directory, signals, resuming.
// ctest: labels=integration timeout=300
#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "src/solver/tensorboard.h"
#include "tests/cli_fixture.h"

namespace kinet {
namespace {

using Json = nlohmann::json;

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What programs that plot Caffe's logs take out of a line; their regular expressions, written anew
// from what they are known to match.
struct Scraper {
  std::regex iteration{R"(Iteration (\d+))"};
  std::regex train{R"(Train net output #(\d+): (\S+) = ([\.\deE+-]+))"};
  std::regex test{R"(Test net output #(\d+): (\S+) = ([\.\deE+-]+))"};
  std::regex rate{R"(lr = ([-+]?[0-9]*\.?[0-9]+([eE]?[-+]?[0-9]+)?))"};
  std::regex loss{R"(Iteration (\d+) \(.* iter/s, .*s/\d+ iters\), loss = ([\.\deE+-]+))"};
  std::regex time{R"(^[IWEF](\d{4}) (\d{2}):(\d{2}):(\d{2})\.(\d{6}) )"};

  std::vector<int> iterations;
  std::vector<double> train_losses, test_accuracies, rates, losses;

  void read(const std::string& line) {
    std::smatch m;
    if (std::regex_search(line, m, iteration)) iterations.push_back(std::stoi(m[1]));
    if (std::regex_search(line, m, train)) train_losses.push_back(std::stod(m[3]));
    if (std::regex_search(line, m, test) && m[2] == "accuracy") {
      test_accuracies.push_back(std::stod(m[3]));
    }
    if (std::regex_search(line, m, rate)) rates.push_back(std::stod(m[1]));
    if (std::regex_search(line, m, loss)) losses.push_back(std::stod(m[2]));
  }
};

class CliTrain : public CliTest {};

TEST_F(CliTrain, ALogReaderFindsEverythingInAShortRun) {
  const ProcessResult r = kinet({"train", "solver.prototxt", "--out", "run", "--threads", "1"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err, "");
  Scraper scraper;
  for (const std::string& line : split_lines(r.out)) {
    EXPECT_TRUE(std::regex_search(line, scraper.time)) << line;  // every line has a time
    scraper.read(line);
  }
  // Displays at 0, 1, 2 and, after the last update, 3; tests at 0, 2 and at the end.
  EXPECT_EQ(scraper.losses.size(), 4u);
  EXPECT_EQ(scraper.train_losses.size(), 4u);
  EXPECT_EQ(scraper.test_accuracies.size(), 3u);
  ASSERT_EQ(scraper.rates.size(), 4u);
  EXPECT_DOUBLE_EQ(scraper.rates[0], 0.01);
  EXPECT_LT(scraper.rates[2], 0.01);
  EXPECT_TRUE(std::is_sorted(scraper.iterations.begin(), scraper.iterations.end()));
  for (const char* text : {"Solving tiny", "Learning Rate Policy: inv", "Optimization Done.",
                           "Iteration 2, Testing net (#0)", "Snapshotting to binary proto file ",
                           "Seed: 5", "Run directory: run", "batch 4 of 20 training items"}) {
    EXPECT_CONTAINS(r.out, text);
  }
}

TEST_F(CliTrain, TheRunDirectoryIsComplete) {
  trained_weights();
  for (const char* name : {"solver.prototxt", "net.prototxt", "metrics.jsonl", "report.html",
                           "solver_iter_3.caffemodel", "solver_iter_3.solverstate"}) {
    EXPECT_TRUE(exists(std::string("run/") + name)) << name;
  }
  std::vector<std::string> types;
  for (const std::string& line : split_lines(read_file(folder_ / "run/metrics.jsonl"))) {
    types.push_back(Json::parse(line).at("type"));
  }
  EXPECT_EQ(types.front(), "start");
  EXPECT_EQ(types.back(), "finish");
  EXPECT_EQ(std::count(types.begin(), types.end(), "train"), 4);
  EXPECT_EQ(std::count(types.begin(), types.end(), "test"), 3);
  EXPECT_EQ(std::count(types.begin(), types.end(), "snapshot"), 1);
  const std::string report = read_file(folder_ / "run/report.html");
  for (const char* title : {">Loss<", ">Test accuracy<", ">Learning rate<"}) {
    EXPECT_CONTAINS(report, title);
  }
  EXPECT_CONTAINS(read_file(folder_ / "run/solver.prototxt"), "max_iter: 3");
}

TEST_F(CliTrain, TensorboardFileHasValidRecords) {
  trained_weights();
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run")) {
    if (entry.path().string().find("tfevents") != std::string::npos)
      bytes = read_file(entry.path());
  }
  const auto number = [&](size_t at, int count) {
    uint64_t value = 0;
    for (int i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes.at(at + i));
    return value;
  };
  int records = 0;
  for (size_t at = 0; at < bytes.size(); ++records) {
    const size_t length = number(at, 8);
    ASSERT_EQ(number(at + 8, 4), masked_crc32c(bytes.substr(at, 8)));
    ASSERT_EQ(number(at + 12 + length, 4), masked_crc32c(bytes.substr(at + 12, length)));
    at += length + 16;
  }
  EXPECT_EQ(records, 1 + 4 + 3);  // version, displays, tests
}

TEST_F(CliTrain, WithoutOutTheRunDirectoryIsNamedAfterTheFolder) {
  const ProcessResult r = kinet({"train", "solver.prototxt", "--quiet"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto first = std::filesystem::directory_iterator(folder_ / "runs")->path().filename();
  EXPECT_EQ(first.string().rfind("tiny-", 0), 0u) << first;  // no folder given: the net's name
  EXPECT_EQ(split_lines(r.out).size(), 1u) << r.out;
  EXPECT_CONTAINS(r.out, "Ended at iteration 3 (max_iter), loss ");
  EXPECT_CONTAINS(r.out, "model: " + ("runs" / first / "solver_iter_3.caffemodel").string());
}

TEST_F(CliTrain, ARunThatCannotBeginLeavesNoFolder) {
  std::filesystem::remove(folder_ / "images-idx3");
  const ProcessResult r = kinet({"train", "solver.prototxt", "--out", "run"});
  EXPECT_EQ(r.status, 2);
  EXPECT_CONTAINS(r.err, "images-idx3");
  EXPECT_FALSE(exists("run"));
}

TEST_F(CliTrain, ARunThatCannotBeginTakesNothingAway) {
  namespace fs = std::filesystem;
  folder_.write("thesis.tex", "precious");
  EXPECT_EQ(kinet({"train", "solver.prototxt", "--out", "thesis.tex"}).status, 2);
  EXPECT_EQ(read_file(folder_ / "thesis.tex"), "precious");

  fs::create_directory(folder_ / "empty");
  fs::create_directory_symlink("empty", folder_ / "latest");
  fs::remove(folder_ / "images-idx3");
  for (const char* out : {"empty", "latest"}) {
    EXPECT_EQ(kinet({"train", "solver.prototxt", "--out", out}).status, 2);
    EXPECT_TRUE(fs::exists(fs::symlink_status(folder_ / out))) << out;
  }
}

TEST_F(CliTrain, InterruptSnapshotsAndStops) {
  Process p({kinet_program(), "train", "solver.prototxt", "--out", "run", "--set",
             "max_iter=1000000000", "--set", "display=100", "--threads", "1"},
            folder_.str());
  ASSERT_TRUE(p.wait_for("Iteration 100 ", 60)) << p.err();
  p.send(SIGINT);
  const ProcessResult r = p.wait(60);
  EXPECT_FALSE(r.timed_out);
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_CONTAINS(r.err, "stopping after this iteration, with a snapshot");
  EXPECT_CONTAINS(r.out, "Optimization stopped early.");
  EXPECT_CONTAINS(r.out, "Last snapshot: run/solver_iter_");
  const std::string go_on = "Go on with: kinet train solver.prototxt --resume run/solver_iter_";
  EXPECT_CONTAINS(r.out, go_on);
  EXPECT_CONTAINS(r.out, ".solverstate --out run --set max_iter=1000000000 --set display=100");
  EXPECT_EQ(count_files("run", ".solverstate"), 1);
}

TEST_F(CliTrain, HangupSnapshotsAndGoesOn) {
  Process p({kinet_program(), "train", "solver.prototxt", "--out", "run", "--set",
             "max_iter=1000000000", "--set", "display=100", "--threads", "1"},
            folder_.str());
  ASSERT_TRUE(p.wait_for("Iteration 100 ", 60)) << p.err();
  p.send(SIGHUP);
  ASSERT_TRUE(p.wait_for("Snapshotting solver state", 60)) << p.err();
  const size_t before = p.out().size();
  ASSERT_EQ(count_files("run", ".solverstate"), 1);
  for (int i = 0; i < 2000 && p.out().size() == before; ++i) usleep(5000);
  EXPECT_GT(p.out().size(), before);  // it trains on
  p.send(SIGTERM);
  EXPECT_EQ(p.wait(60).status, 143);
  EXPECT_EQ(count_files("run", ".solverstate"), 2);
}

// Iterations of about a second, so that a second signal falls into the same one.
constexpr const char* kSlowNet = R"(name: "slow"
layer {
  name: "data" type: "DummyData" top: "data"
  dummy_data_param { shape { dim: 2048 dim: 2048 } data_filler { type: "constant" value: 0.1 } }
}
layer {
  name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 2048 weight_filler { type: "xavier" } }
}
layer {
  name: "target" type: "DummyData" top: "target"
  dummy_data_param { shape { dim: 2048 dim: 2048 } }
}
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "target" top: "loss" }
)";

TEST_F(CliTrain, ASecondInterruptStopsWithoutASnapshot) {
  folder_.write("net.prototxt", kSlowNet);
  folder_.write("solver.prototxt",
                "net: \"net.prototxt\" base_lr: 1e-9 max_iter: 1000 display: 1\n");
  Process p({kinet_program(), "train", "solver.prototxt", "--out", "run", "--threads", "1"},
            folder_.str());
  ASSERT_TRUE(p.wait_for("Iteration 1, lr", 120)) << p.err();
  usleep(200000);  // past the update, into the next forward pass
  p.send(SIGINT);
  ASSERT_TRUE(p.wait_for("stopping after this iteration", 60)) << p.err();
  p.send(SIGINT);
  const ProcessResult r = p.wait(60);
  EXPECT_EQ(r.status, 130);
  EXPECT_CONTAINS(r.err, "stopping now, without a snapshot");
  EXPECT_EQ(count_files("run", ".solverstate"), 0);
}

TEST_F(CliTrain, ResumingGoesOnInTheSameRunDirectory) {
  trained_weights();
  const ProcessResult r =
      kinet({"train", "solver.prototxt", "--out", "run", "--threads", "1", "--set", "max_iter=5",
             "--snapshot", "run/solver_iter_3.solverstate"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_CONTAINS(r.out, "resumed from run/solver_iter_3.solverstate; iterations 3 to 5");
  EXPECT_CONTAINS(r.out, "optimizer history restored");
  EXPECT_TRUE(exists("run/solver_iter_5.solverstate"));
  const std::string report = read_file(folder_ / "run/report.html");
  EXPECT_CONTAINS(report, ">0</text>");  // the curves begin where the first run began
  EXPECT_CONTAINS(report, "3 to 5");
}

TEST_F(CliTrain, WeightsAreCopiedByNameAndTheCountIsTold) {
  const std::string weights = trained_weights();
  const ProcessResult r =
      kinet({"train", "solver.prototxt", "--out", "next", "--weights", weights});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_CONTAINS(r.out, "loaded 1 of 1 layers from run/solver_iter_3.caffemodel");
  EXPECT_CONTAINS(r.out,
                  "from the beginning with the weights of run/solver_iter_3.caffemodel; "
                  "iterations 0 to 3, optimizer history empty");
  EXPECT_CONTAINS(read_file(folder_ / "next/metrics.jsonl"), "loaded 1 of 1 layers");
}

// The saved files name each other and the data by absolute paths, and hold the seed: from anywhere,
// they give the same weights, bit for bit.
TEST_F(CliTrain, TheSavedFilesRepeatTheRun) {
  std::string solver = kTinySolver;
  solver.erase(solver.find("random_seed"));
  folder_.write("tiny.prototxt",
                solver + "test_net: \"net.prototxt\" test_net: \"other.prototxt\"");
  folder_.write("other.prototxt", std::string(kTinyNet) +
                                      "layer { name: \"quiet\" type: \"Silence\" "
                                      "bottom: \"ip\" }\n");
  const std::string weights = trained_weights();
  ASSERT_EQ(kinet({"train", "tiny.prototxt", "--out", "first run", "--set", "max_iter=4",
                   "--threads", "1", "--weights", weights})
                .status,
            0);
  const std::string saved = read_file(folder_ / "first run/solver.prototxt");
  EXPECT_CONTAINS(saved, "# command: kinet train tiny.prototxt --weights " + weights +
                             " --out 'first run' --set max_iter=4 --threads 1\n");
  EXPECT_CONTAINS(saved, "random_seed: ");
  EXPECT_CONTAINS(read_file(folder_ / "first run/net.prototxt"),
                  "images: \"" + (folder_ / "images-idx3") + "\"");
  std::filesystem::create_directory(folder_ / "elsewhere");
  const ProcessResult r = run_kinet(
      {"train", folder_ / "first run/solver.prototxt", "--out", "again", "--threads", "1"},
      folder_ / "elsewhere");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(read_file(folder_ / "first run/tiny_iter_4.caffemodel") ==
              read_file(folder_ / "elsewhere/again/tiny_iter_4.caffemodel"));
  EXPECT_TRUE(exists("elsewhere/again/test_net_1.prototxt"));
}

TEST_F(CliTrain, DivergedTrainingEndsWithStatusOne) {
  const ProcessResult r = kinet({"train", "solver.prototxt", "--out", "run", "--set",
                                 "base_lr=3e38", "--set", "max_iter=50"});
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_CONTAINS(r.err, "iteration");
  EXPECT_CONTAINS(r.err, "finite");
  EXPECT_CONTAINS(read_file(folder_ / "run/report.html"), "failed: ");
}

TEST_F(CliTrain, AClosedPipeDoesNotStopTraining) {
  const std::string command =
      "'" + kinet_program() + "' train solver.prototxt --out run --set max_iter=200 | head -1";
  const ProcessResult r = Process({"/bin/sh", "-c", command}, folder_.str()).wait(60);
  EXPECT_EQ(r.status, 0);
  for (int i = 0; i < 4000 && !exists("run/solver_iter_200.solverstate"); ++i) usleep(5000);
  EXPECT_TRUE(exists("run/solver_iter_200.solverstate"));
}

}  // namespace
}  // namespace kinet
