// What a run leaves behind: metrics.jsonl, TensorBoard events, report.html and the run directory.
// ctest: labels=unit,core,smoke
#include "src/solver/report.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/proto/kinet/tensorboard.pb.h"
#include "src/solver/chart.h"
#include "src/solver/run_directory.h"
#include "src/solver/tensorboard.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class RunFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("kinet-report-{}-{}", getpid(), count_++);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static inline int count_ = 0;
  fs::path folder_;
};

StartRecord start_record() {
  StartRecord r;
  r.net_name = "LeNet", r.solver_type = "SGD", r.lr_policy = "inv";
  r.seed = 18446744073709551615ull, r.threads = 2;
  r.max_iterations = 200, r.parameters = 431080;
  r.batch = 64, r.train_items = 60000, r.iterations_per_epoch = 937.5;
  r.history = "empty";
  return r;
}

DisplayRecord display_record(int64_t iteration, double loss) {
  DisplayRecord r;
  r.iteration = iteration, r.epoch = iteration / 937.5, r.loss = loss;
  r.learning_rate = 0.01, r.gradient_norm = 1.5, r.images_per_second = 25000;
  r.outputs = {{"loss", loss, 1}};
  return r;
}

TestRecord test_record(int64_t iteration, double accuracy) {
  TestRecord r;
  r.iteration = iteration, r.loss = 0.4, r.items = r.set_items = 10000;
  r.outputs = {{"accuracy", accuracy, 0}, {"class", 0.5, 0}, {"class", 0.25, 0}, {"loss", 0.4, 1}};
  return r;
}

std::vector<Json> lines_of(const fs::path& path) {
  std::vector<Json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

TEST_F(RunFiles, MetricsHoldOneObjectALine) {
  MetricsWriter writer(folder_ / "metrics.jsonl");
  writer.on_start(start_record());
  writer.on_display(display_record(100, 0.52));
  writer.on_test(test_record(100, 0.85));
  writer.on_snapshot(100, "a/b_iter_100.solverstate");
  writer.on_finish({100, 3.5, 0.52, "max_iter", "a/b_iter_100.solverstate"});
  const std::vector<Json> lines = lines_of(folder_ / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0]["type"], "start");
  EXPECT_EQ(lines[0]["seed"], 18446744073709551615ull);
  EXPECT_EQ(lines[1]["type"], "train");
  EXPECT_EQ(lines[1]["iteration"], 100);
  EXPECT_DOUBLE_EQ(lines[1]["outputs"]["loss"], 0.52);
  EXPECT_EQ(lines[2]["type"], "test");
  EXPECT_DOUBLE_EQ(lines[2]["outputs"]["accuracy"], 0.85);
  EXPECT_EQ(lines[2]["outputs"]["class"], Json::array({0.5, 0.25}));
  EXPECT_EQ(lines[3]["path"], "a/b_iter_100.solverstate");
  EXPECT_EQ(lines[4]["reason"], "max_iter");
}

TEST_F(RunFiles, NonFiniteNumbersAreNull) {
  MetricsWriter writer(folder_ / "metrics.jsonl");
  writer.on_display(display_record(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(lines_of(folder_ / "metrics.jsonl")[0]["loss"].is_null());
}

TEST_F(RunFiles, ARunThatGoesOnForgetsTheFutureOfTheFormerOne) {
  const fs::path path = folder_ / "metrics.jsonl";
  {
    MetricsWriter writer(path);
    writer.on_start(start_record());
    for (int i = 1; i <= 4; ++i) writer.on_display(display_record(100 * i, 1.0 / i));
  }
  std::ofstream(path, std::ios::app) << R"({"type":"train","iter)";  // killed in mid-line
  StartRecord again = start_record();
  again.iteration = 200, again.resumed_from = "x.solverstate";
  MetricsWriter writer(path);
  writer.on_start(again);
  writer.on_display(display_record(300, 0.25));
  const RunHistory history = read_metrics(path);
  ASSERT_EQ(history.displays.size(), 3u);
  EXPECT_EQ(history.displays[1].iteration, 200);
  EXPECT_DOUBLE_EQ(history.displays[2].loss, 0.25);
  EXPECT_EQ(history.start.resumed_from, "x.solverstate");
}

TEST(Tensorboard, ChecksumIsCastagnolis) {
  // Known answers: RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

uint64_t little_endian(const std::string& bytes, size_t at, int count) {
  uint64_t value = 0;
  for (int i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// Reads records as TensorFlow does: both checksums must be right.
std::vector<Event> read_events(const fs::path& path) {
  const std::string bytes = read_file(path);
  std::vector<Event> events;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t length = little_endian(bytes, at, 8);
    EXPECT_EQ(little_endian(bytes, at + 8, 4), masked_crc32c(bytes.substr(at, 8)));
    const std::string message = bytes.substr(at + 12, length);
    EXPECT_EQ(little_endian(bytes, at + 12 + length, 4), masked_crc32c(message));
    Event event;
    EXPECT_TRUE(event.ParseFromString(message));
    events.push_back(event);
    at += 16 + length;
  }
  return events;
}

TEST_F(RunFiles, TensorboardRecordsCarryTheNumbers) {
  const fs::path path = folder_ / event_file_name();
  EXPECT_NE(path.string().find("tfevents"), std::string::npos);
  TensorboardWriter writer(path);
  writer.on_display(display_record(100, 0.5));
  writer.on_test(test_record(100, 0.0));  // zero is a value, not an absent one
  const std::vector<Event> events = read_events(path);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].step(), 100);
  EXPECT_EQ(events[1].summary().value(0).tag(), "train/loss");
  EXPECT_FLOAT_EQ(events[1].summary().value(0).simple_value(), 0.5f);
  EXPECT_EQ(events[2].summary().value(0).tag(), "test/accuracy");
  EXPECT_TRUE(events[2].summary().value(0).has_simple_value());
  EXPECT_EQ(events[2].summary().value(2).tag(), "test/class.1");
}

TEST(Chart, TicksAreRoundNumbersThatCoverTheRange) {
  EXPECT_EQ(nice_ticks(0, 10000, 5), (std::vector<double>{0, 2000, 4000, 6000, 8000, 10000}));
  for (const auto& [low, high] :
       {std::pair{0.812, 0.9034}, {0.0, 2.31}, {-3.0, 7e6}, {1e-9, 2e-9}}) {
    const std::vector<double> ticks = nice_ticks(low, high, 5);
    EXPECT_LE(ticks.front(), low);
    EXPECT_GE(ticks.back(), high * (1 - 1e-12));
    EXPECT_LE(ticks.size(), 9u);
    EXPECT_GE(ticks.size(), 3u);
  }
  EXPECT_GE(nice_ticks(0.5, 0.5, 5).size(), 2u);  // one value has a range, too
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Chart, LongSeriesAreThinnedAndKeepTheirPeak) {
  Series series{"loss", {}, true};
  for (int i = 0; i < 100000; ++i) series.points.emplace_back(i, i == 51234 ? 7.5 : 1.0);
  const std::string svg = svg_chart({"Loss", "iteration", "loss", {series}, true});
  EXPECT_LT(count_of(svg, "<circle"), 1500);
  EXPECT_EQ(count_of(svg, "loss: 7.5 at 51,234"), 1);
}

TEST(Chart, PointsThatAreNotFiniteAreLeftOut) {
  const Series series{"x", {{0, 1}, {1, NAN}, {2, INFINITY}, {3, 2}}, true};
  const std::string svg = svg_chart({"X", "i", "x", {series}, true});
  EXPECT_EQ(count_of(svg, "<circle"), 2);
  EXPECT_EQ(count_of(svg, "nan"), 0);
  EXPECT_EQ(count_of(svg_chart({"X", "i", "x", {{"x", {{0, NAN}}, true}}, true}), "no data yet"),
            1);
}

TEST(Chart, MoreSeriesThanColoursAreDashedAndNamedBelow) {
  Chart chart{"Accuracy", "s", "%", {}, false};
  for (int i = 0; i < 8; ++i) {
    chart.series.push_back({fmt::format("strategy number {}", i), {{0, i}, {1, i + 1}}});
  }
  chart.series[2].band = {{0, 1, 3}, {1, 2, 40}, {2, NAN, 3}};
  const std::string above = svg_chart(chart);
  chart.legend_below = true;
  const std::string below = svg_chart(chart);
  EXPECT_EQ(count_of(below, "stroke-dasharray='7 4'"), 4);  // two curves, two entries
  EXPECT_EQ(count_of(below, "fill-opacity"), 1);
  EXPECT_EQ(count_of(below, ">40</text>"), 1);  // the axis covers the band
  EXPECT_EQ(count_of(below, "nan"), 0);
  EXPECT_EQ(count_of(above, "viewBox='0 0 760 300'"), 1);
  EXPECT_EQ(count_of(below, "viewBox='0 0 760 300'"), 0);
}

TEST(Report, HasTheCurvesAndStandsAlone) {
  RunHistory history;
  history.begin(start_record());
  for (int i = 1; i <= 20; ++i) history.displays.push_back(display_record(10 * i, 2.0 / i));
  history.tests = {test_record(100, 0.81), test_record(200, 0.79)};
  history.finish = FinishRecord{200, 12.5, 0.1, "max_iter", ""};
  const std::string html =
      render_report(history, {"lenet <1>", "kinet 0.1.0", {{"net.prototxt", "name: \"a<b\""}}});
  EXPECT_EQ(count_of(html, "<svg"), 3);
  for (const char* title : {">Loss<", ">Test accuracy<", ">Learning rate<"}) {
    EXPECT_EQ(count_of(html, title), 1) << title;
  }
  EXPECT_GE(count_of(html, "<path d='M"), 4);             // two losses, accuracy, rate
  EXPECT_EQ(count_of(html, "accuracy: 0.81 at 100"), 1);  // the test's marker
  EXPECT_EQ(count_of(html, "<b>0.81</b>"), 1);            // the best
  EXPECT_EQ(count_of(html, "<b>0.79</b>"), 1);            // the last
  EXPECT_EQ(count_of(html, "lenet &lt;1&gt;"), 2);
  EXPECT_EQ(count_of(html, "a&lt;b"), 1);
  EXPECT_EQ(count_of(html, "http"), 0);
  EXPECT_EQ(count_of(html, "<script"), 0);
}

// The end mostly lies after the last display, and tests come less often than displays.
TEST(Report, TilesAreOfTheEndAndChartsShareTheirRange) {
  RunHistory history;
  history.begin(start_record());
  history.displays = {display_record(0, 2.0), display_record(900, 0.75)};
  history.tests = {test_record(500, 0.5)};
  history.finish = FinishRecord{1875, 12.5, 0.625, "max_iter", ""};
  const std::string html = render_report(history, {"x", "kinet", {}});
  EXPECT_EQ(count_of(html, "<b>0.625</b><span>training loss"), 1);
  EXPECT_EQ(count_of(html, "<b>2</b><span>epochs"), 1);
  EXPECT_EQ(count_of(html, "highest accuracy, at iteration 500"), 1);
  EXPECT_EQ(count_of(html, ">1,500</text>"), 3);  // a tick of every chart
}

TEST(Report, OfARunThatHasNotBegunIsWhole) {
  const std::string html = render_report({}, {"x", "kinet", {}});
  EXPECT_EQ(count_of(html, "no data yet"), 3);
  EXPECT_EQ(count_of(html, "</html>"), 1);
}

TEST_F(RunFiles, RunDirectoryHoldsWhatIsNeeded) {
  std::vector<std::string> warnings;
  RunDirectory directory(folder_ / "run", [&](const std::string& w) { warnings.push_back(w); });
  directory.save("solver.prototxt", "base_lr: 0.01\n");
  directory.on_start(start_record());
  directory.on_display(display_record(10, 1.0));
  directory.on_test(test_record(10, 0.5));
  EXPECT_NE(read_file(folder_ / "run/report.html").find("running"), std::string::npos);
  directory.on_finish({10, 1, 1.0, "max_iter", ""});
  EXPECT_NE(read_file(folder_ / "run/report.html").find("max_iter"), std::string::npos);
  EXPECT_EQ(read_file(folder_ / "run/solver.prototxt"), "base_lr: 0.01\n");
  EXPECT_EQ(lines_of(folder_ / "run/metrics.jsonl").size(), 4u);
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

TEST_F(RunFiles, ALostFileIsWarnedOfOnceAndTheRunGoesOn) {
  std::vector<std::string> warnings;
  RunDirectory directory(folder_ / "run", [&](const std::string& w) { warnings.push_back(w); });
  directory.on_start(start_record());
  ASSERT_TRUE(warnings.empty());
  fs::remove_all(folder_ / "run");  // the report cannot be renamed into place any more
  for (int i = 1; i <= 3; ++i) directory.on_test(test_record(i, 0.5));
  directory.on_finish({3, 1, 1.0, "max_iter", ""});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("report.html"), std::string::npos) << warnings[0];
}

// A limit on the size of files stands for a full disk: writing beyond it fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    former_action_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit limit{bytes, former_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, former_action_);
  }

 private:
  rlimit former_{};
  void (*former_action_)(int) = nullptr;
};

TEST_F(RunFiles, AFullDiskIsWarnedOfOnceForEachFile) {
  std::vector<std::string> warnings;
  RunDirectory directory(folder_ / "run", [&](const std::string& w) { warnings.push_back(w); });
  directory.on_start(start_record());
  ASSERT_TRUE(warnings.empty());
  const FileSizeLimit full(16);
  for (int i = 1; i <= 3; ++i) directory.on_display(display_record(i, 1.0));
  directory.on_finish({3, 1, 1.0, "max_iter", ""});
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("metrics.jsonl is not written any more"), std::string::npos);
  EXPECT_NE(warnings[1].find("the TensorBoard file is not written"), std::string::npos);
  EXPECT_NE(warnings[2].find("report.html is not written"), std::string::npos);
}

TEST_F(RunFiles, RunFoldersOfOneSecondDiffer) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const fs::path a = make_run_folder("models/lenet/solver.prototxt", "LeNet");
  const fs::path b = make_run_folder("models/lenet/solver.prototxt", "LeNet");
  const fs::path c = make_run_folder("solver.prototxt", "My Net/2");
  const bool made = fs::is_directory(a) && fs::is_directory(b);
  fs::current_path(before);
  EXPECT_NE(a, b);
  EXPECT_TRUE(made);
  EXPECT_EQ(a.string().rfind("runs/lenet-", 0), 0u) << a;
  EXPECT_EQ(c.string().rfind("runs/my-net-2-", 0), 0u) << c;
}

}  // namespace
}  // namespace kinet
