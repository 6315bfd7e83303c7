// ctest: labels=unit,core timeout=60
//
// Rounds of several workers as lines of metrics.jsonl, in the report, and over 100,000 of them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/solver/report.h"
#include "src/solver/round_lines.h"
#include "src/solver/run_directory.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

RoundRecord round_record(int64_t round) {
  RoundRecord r;
  r.round = round;
  r.iteration = static_cast<double>(round) / 2;
  r.seconds = 0.125 * static_cast<double>(round);
  r.k = 2;
  r.live = 4;
  r.members = {{0, round, 0.25, 0, 0.1, "fresh", 0.0125}, {3, round / 2, 0.25, 2, 1.0 / 3, "late"}};
  r.terms = {{"gap", 0.125}, {"noise", 3}};
  r.loss = 0.5;
  r.waiting = {0.025, 0, 0, 0.1};
  r.dropped = 1;
  r.service = 0.0004;
  r.note = "a \"note\"";
  return r;
}

void expect_equal(const RoundRecord& a, const RoundRecord& b) {
  EXPECT_EQ(a.round, b.round);
  EXPECT_EQ(a.iteration, b.iteration);
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.live, b.live);
  EXPECT_EQ(a.terms, b.terms);
  EXPECT_EQ(a.waiting, b.waiting);
  EXPECT_EQ(a.dropped, b.dropped);
  EXPECT_EQ(a.service, b.service);
  EXPECT_EQ(a.note, b.note);
  ASSERT_EQ(a.members.size(), b.members.size());
  for (size_t i = 0; i < a.members.size(); ++i) {
    EXPECT_EQ(a.members[i].worker, b.members[i].worker);
    EXPECT_EQ(a.members[i].seq, b.members[i].seq);
    EXPECT_EQ(a.members[i].weight, b.members[i].weight);
    EXPECT_EQ(a.members[i].lag, b.members[i].lag);
    EXPECT_EQ(a.members[i].rate, b.members[i].rate);
    EXPECT_EQ(a.members[i].how, b.members[i].how);
    EXPECT_EQ(a.members[i].seconds, b.members[i].seconds);
  }
}

TEST(RoundLines, AreJsonAndCanBeReadBackBitForBit) {
  const RoundRecord r = round_record(7);
  const std::string line = round_line(r);
  EXPECT_EQ(line, R"({"type":"round","round":7,"iteration":3.5,"seconds":0.875,"k":2,"live":4,)"
                  R"("loss":0.5,"members":[[0,7,0.25,0,0.1,"fresh",0.0125],)"
                  R"([3,3,0.25,2,0.3333333333333333,"late"]],"terms":{"gap":0.125,"noise":3},)"
                  R"("waiting":[0.025,0,0,0.1],"dropped":1,"service":0.0004,"note":"a \"note\""})");
  EXPECT_TRUE(nlohmann::json::accept(line));
  const auto back = parse_round(line);
  ASSERT_TRUE(back);
  expect_equal(*back, r);
}

TEST(RoundLines, WhatIsEmptyIsLeftOutAndNaNIsNull) {
  RoundRecord r;
  r.loss = NAN;
  const std::string line = round_line(r);
  EXPECT_EQ(line, R"({"type":"round","round":0,"iteration":0,"seconds":0,"k":0,"live":0,)"
                  R"("loss":null,"members":[]})");
  EXPECT_TRUE(std::isnan(parse_round(line)->loss));
  for (size_t length = 0; length < line.size(); ++length) {
    EXPECT_FALSE(parse_round(line.substr(0, length))) << length;
  }
  EXPECT_FALSE(parse_round(R"({"type":"test","round":1})"));
  EXPECT_FALSE(parse_round(R"({"type":"round","round":"one"})"));
}

TEST(RoundHistory, StaysSmallAndForgetsNoRound) {
  RoundHistory history;
  EXPECT_TRUE(history.empty());
  EXPECT_TRUE(round_charts(history).empty());
  constexpr int kRounds = 100'000;
  for (int i = 1; i <= kRounds; ++i) history.add(round_record(i));
  EXPECT_LE(history.buckets().size(), RoundHistory::kMostBuckets);
  EXPECT_GE(history.buckets().size(), RoundHistory::kMostBuckets / 2);
  const RoundBucket total = history.total();
  EXPECT_EQ(total.rounds, kRounds);
  EXPECT_EQ(total.iteration, kRounds / 2.0);
  EXPECT_EQ(total.gradients, 2 * kRounds);
  EXPECT_EQ(total.mean_k(), 2);
  EXPECT_EQ(total.mean_lag(), 1);
  EXPECT_EQ(total.largest_lag, 2);
  EXPECT_EQ(total.dropped, kRounds);
  EXPECT_EQ(total.seconds, 0.125 * kRounds);
  EXPECT_NEAR(total.waiting[3] / total.seconds, 0.8, 1e-9);
  EXPECT_EQ(total.rates[0], 0.1);
  EXPECT_TRUE(std::isnan(total.rates[1]));
  double last = 0;
  for (const RoundBucket& b : history.buckets()) {
    EXPECT_GT(b.iteration, last);
    last = b.iteration;
  }
  history.begin(1000);  // a run goes on from there, and its clock begins at 0
  EXPECT_LE(history.total().iteration, 1000);
  const double seconds = history.total().seconds;
  history.add(round_record(1));
  EXPECT_EQ(history.total().seconds, seconds + 0.125);
}

TEST(RoundHistory, ManyWorkersAreShownByTheirRange) {
  RoundHistory history;
  RoundRecord r = round_record(1);
  r.waiting.assign(9, 0.05);
  r.waiting[8] = 0.125;
  history.add(r);
  const std::vector<Chart> charts = round_charts(history);
  ASSERT_EQ(charts.size(), 5u);
  const std::vector<Series>& waiting = charts[3].series;
  ASSERT_EQ(waiting.size(), 3u);
  EXPECT_EQ(waiting[0].name, "lowest");
  EXPECT_NEAR(waiting[0].points.at(0).second, 40, 1e-9);
  EXPECT_NEAR(waiting[1].points.at(0).second, 100 * (8 * 0.05 + 0.125) / 9 / 0.125, 1e-9);
  EXPECT_NEAR(waiting[2].points.at(0).second, 100, 1e-9);
  EXPECT_EQ(charts[2].series.size(), 4u);  // workers 0 to 3 have told a rate
}

class RoundFiles : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(RoundFiles, ARunDirectoryKeepsRoundsAndTheReportDrawsThem) {
  StartRecord start;
  start.workers = 4;
  {
    RunDirectory directory(folder_ / "run", [](const std::string& text) { FAIL() << text; });
    directory.on_start(start);
    EXPECT_EQ(read_file(folder_ / "run/report.html").find("Staleness"), std::string::npos);
    for (int i = 1; i <= 10; ++i) directory.on_round(round_record(i));
    directory.on_finish({5, 1.25, 0.5, "max_iter", ""});
  }
  const std::string html = read_file(folder_ / "run/report.html");
  for (const char* part : {"Gradients a round is made of (k)", "Staleness of gradients",
                           "Learning rate of each worker", "Time spent waiting",
                           "Late gradients dropped so far", "k, mean over the run", "worker 3"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  const std::vector<RoundRecord> rounds = read_rounds(folder_ / "run/metrics.jsonl");
  ASSERT_EQ(rounds.size(), 10u);
  for (int i = 1; i <= 10; ++i) expect_equal(rounds[i - 1], round_record(i));
  EXPECT_EQ(read_metrics(folder_ / "run/metrics.jsonl").rounds.total().rounds, 10);
}

TEST_F(RoundFiles, ARunThatGoesOnTakesBackWhatCameAfterItsState) {
  const std::string path = folder_ / "metrics.jsonl";
  StartRecord start;
  MetricsWriter writer(path);
  writer.on_start(start);
  for (int i = 1; i <= 10; ++i) writer.on_round(round_record(i));
  start.resumed_from = "x.solverstate";
  start.iteration = 3;
  writer.on_start(start);
  writer.on_round(round_record(7));
  const std::vector<RoundRecord> rounds = read_rounds(path);
  ASSERT_EQ(rounds.size(), 7u);  // 1 to 6 end at iterations 0.5 to 3
  EXPECT_EQ(rounds.back().round, 7);
  EXPECT_EQ(read_metrics(path).rounds.total().rounds, 7);
  start.resumed_from = "";
  writer.on_start(start);
  EXPECT_TRUE(read_rounds(path).empty());
  EXPECT_THROW(read_rounds(folder_ / "none.jsonl"), Error);
}

}  // namespace
}  // namespace kinet
