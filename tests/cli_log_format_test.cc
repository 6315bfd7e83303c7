// What `kinet train` prints, against the regular expressions of programs that read Caffe's logs.
// ctest: labels=unit,core,smoke
#include <gtest/gtest.h>

#include <regex>

#include "src/cli/console.h"
#include "src/cli/train_log.h"

namespace kinet {
namespace {

class Lines {
 public:
  LineSink sink() {
    return [this](const std::string& line) { lines_.push_back(line); };
  }
  const std::vector<std::string>& all() const { return lines_; }
  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) out += line + "\n";
    return out;
  }

 private:
  std::vector<std::string> lines_;
};

StartRecord start_record() {
  StartRecord r;
  r.net_name = "LeNet", r.solver_type = "SGD", r.lr_policy = "inv", r.seed = 7;
  r.max_iterations = 10000, r.batch = 64, r.train_items = 60000, r.iterations_per_epoch = 937.5;
  r.history = "empty";
  return r;
}

DisplayRecord display_record() {
  DisplayRecord r;
  r.iteration = 100, r.loss = 0.52, r.learning_rate = 0.00992565;
  r.iterations_per_second = 25.3, r.seconds_since_last = 3.95, r.since_last = 100;
  r.outputs = {{"loss", 0.52, 1}};
  return r;
}

TestRecord test_record() {
  TestRecord r;
  r.iteration = 500, r.items = r.set_items = 10000;
  r.outputs = {{"accuracy", 0.85, 0}, {"loss", 0.41, 0.5}};
  return r;
}

// Workers with a round of decisions tell k, lag and waiting since the last display.
TEST(CaffeLog, RoundsAreToldAtADisplay) {
  Lines lines;
  CaffeLog log(lines.sink(), lines.sink());
  StartRecord start = start_record();
  start.workers = 2;
  log.on_start(start);
  const size_t before = lines.all().size();
  RoundRecord round;
  round.k = 1, round.live = 2;
  round.waiting = {0.25, 0};
  round.members = {{0, 1, 0.5, 0, 0.1, "fresh"}};
  round.seconds = 1;
  log.on_round(round);
  round.k = 2, round.seconds = 2, round.dropped = 3;
  round.members = {{0, 2, 0.5, 3, 0.1, "late"}, {1, 1, 0.5, 1, 0.1, "late"}};
  log.on_round(round);
  DisplayRecord display = display_record();
  display.images_per_second = 12345;
  log.on_display(display);
  ASSERT_EQ(lines.all().size(), before + 4);
  EXPECT_EQ(lines.all()[before + 2],
            "    2 workers: 12,345 images/s, k 1.5, lag 1.33 (largest 3), waiting 25 %, 0 %, "
            "3 dropped");
  log.on_display(display);  // no round since
  EXPECT_EQ(lines.text().find("k 1.5"), lines.text().rfind("k 1.5"));
}

TEST(CaffeLog, GoldenLines) {
  Lines lines;
  CaffeLog log(lines.sink(), lines.sink());
  log.on_start(start_record());
  log.on_display(display_record());
  log.on_test(test_record());
  log.on_snapshot(5000, "runs/a/lenet_iter_5000.solverstate");
  log.on_finish({10000, 60, 0.3, "max_iter", ""});
  EXPECT_EQ(lines.text(),
            "Seed: 7\n"
            "Threads: 1\n"
            "Data: batch 64 of 60,000 training items; 937.5 iterations an epoch\n"
            "Start: from the beginning; iterations 0 to 10,000, optimizer history empty\n"
            "Solving LeNet\n"
            "Learning Rate Policy: inv\n"
            "Iteration 100 (25.3 iter/s, 3.95s/100 iters), loss = 0.52\n"
            "    Train net output #0: loss = 0.52 (* 1 = 0.52 loss)\n"
            "Iteration 100, lr = 0.00992565\n"
            "Iteration 500, Testing net (#0)\n"
            "    Test net output #0: accuracy = 0.85\n"
            "    Test net output #1: loss = 0.41 (* 0.5 = 0.205 loss)\n"
            "Snapshotting to binary proto file runs/a/lenet_iter_5000.caffemodel\n"
            "Snapshotting solver state to binary proto file runs/a/lenet_iter_5000.solverstate\n"
            "Iteration 10000, loss = 0.3\n"
            "Optimization Done.\n");
}

TEST(CaffeLog, SeedFromTheClockSaysHowToRepeat) {
  StartRecord r = start_record();
  r.seed_chosen = true;
  EXPECT_EQ(start_lines(r)[0], "Seed: 7 (from the clock; --seed 7 repeats this run)");
}

TEST(CaffeLog, CoverageIsToldOnce) {
  Lines lines;
  CaffeLog log(lines.sink(), lines.sink());
  TestRecord r = test_record();
  r.coverage = "scores 50 of 10,000 items";
  log.on_test(r);
  log.on_test(r);
  int told = 0;
  for (const std::string& line : lines.all()) told += line == "Note: scores 50 of 10,000 items";
  EXPECT_EQ(told, 1);
}

TEST(CaffeLog, SmallAndOddNumbersKeepTheirDigits) {
  Lines lines;
  CaffeLog log(lines.sink(), lines.sink());
  DisplayRecord r = display_record();
  r.learning_rate = 1.25e-8;
  r.iterations_per_second = std::numeric_limits<double>::infinity();  // nothing measured yet
  log.on_display(r);
  EXPECT_NE(lines.text().find("lr = 1.25e-08"), std::string::npos) << lines.text();
  EXPECT_NE(lines.text().find("(0 iter/s"), std::string::npos) << lines.text();
}

// Written from the described behaviour of log readers: month, day, time with a fraction, process,
// source and line; anything else makes them skip the line or fail.
TEST(Console, PrefixIsGlogs) {
  const std::string prefix = log_prefix('I', std::chrono::system_clock::now(), 4242);
  const std::regex glog(
      R"(^([IWE])(\d{2})(\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{6}) +(\d+) \S+:\d+\] $)");
  std::smatch match;
  ASSERT_TRUE(std::regex_match(prefix, match, glog)) << prefix;
  EXPECT_EQ(match[8], "4242");
}

LiveState live_state() {
  LiveState s;
  s.iteration = 1299, s.max_iterations = 10000;
  s.epoch = 1.3856, s.loss = 0.45123, s.score = "accuracy 0.8423";
  s.images_per_second = 25312.4, s.seconds_left = 200;
  return s;
}

TEST(LiveLine, HoldsEverythingOnAWideTerminal) {
  EXPECT_EQ(
      live_line(live_state(), 120),
      " 12% 1,299/10,000  epoch 1.39  loss 0.4512  accuracy 0.8423  25,312 images/s  ETA 3m 20s");
}

TEST(LiveLine, NeverReachesTheLastColumn) {
  for (int width = 1; width < 120; ++width) {
    EXPECT_LT(static_cast<int>(live_line(live_state(), width).size()), width) << width;
  }
  EXPECT_EQ(live_line(live_state(), 45), " 12% 1,299/10,000  epoch 1.39  loss 0.4512");
}

TEST(LiveLine, SaysNothingItDoesNotKnow) {
  LiveState s;
  s.iteration = 3, s.max_iterations = 10, s.loss = 2.5;
  EXPECT_EQ(live_line(s, 80), " 30% 3/10  loss 2.5000");
}

TEST(LiveLog, TestsRemainAndTheLineFollows) {
  Lines lines, live;
  LiveLog log({lines.sink(), lines.sink(), live.sink(), [] { return 100; }});
  log.on_start(start_record());
  log.on_iteration(1, 2.0);
  log.on_test(test_record());
  log.on_display(display_record());
  EXPECT_EQ(live.all().size(), 1u);
  EXPECT_EQ(live.all()[0], "  0% 1/10,000  epoch 0.00  loss 2.0000");
  ASSERT_GE(lines.all().size(), 2u);
  EXPECT_EQ(*(lines.all().end() - 2),
            "iteration 500: test  accuracy 0.8500  loss 0.4100  (10,000 items, 0.0s)");
  EXPECT_EQ(lines.all().back(), "iteration 100: loss 0.5200  rate 0.00992565");
}

TEST(LiveLog, StartLinesBreakBetweenWords) {
  Lines lines, live;
  LiveLog log({lines.sink(), lines.sink(), live.sink(), [] { return 40; }});
  log.on_start(start_record());
  EXPECT_NE(lines.text().find("Data: batch 64 of 60,000 training items;\n"
                              "  937.5 iterations an epoch\n"),
            std::string::npos)
      << lines.text();
}

}  // namespace
}  // namespace kinet
