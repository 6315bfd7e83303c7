// What several ranks print, as one text.
// ctest: labels=unit,core timeout=60
#include "comm/line_merger.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace kinet {
namespace {

class LinesTest : public testing::Test {
 protected:
  void start(int ranks, bool verbose = false) {
    lines_.emplace(
        ranks, verbose, [this](const std::string& text) { out_ += text; },
        [this](const std::string& text) { err_ += text; });
  }
  void out(Rank rank, const std::string& bytes) {
    lines_->add(rank, LineMerger::Stream::kOut, bytes, now_);
  }
  void err(Rank rank, const std::string& bytes) {
    lines_->add(rank, LineMerger::Stream::kErr, bytes, now_);
  }

  std::optional<LineMerger> lines_;
  std::string out_, err_;
  double now_ = 100;
};

TEST_F(LinesTest, Rank0IsSeenTheOthersWarn) {
  start(3);
  out(0, "iteration ");
  out(0, "1\nitera");
  EXPECT_EQ(out_, "iteration 1\n");
  out(1, "iteration 1\nwarning: few images\n");
  out(2, "W1129 17:40:35.123456  4711 solver.cc:218] few images\nI1129 17:40:35 x] fine\n");
  lines_->end(0, now_);
  EXPECT_EQ(out_, "iteration 1\nitera\n");
  EXPECT_EQ(err_, "");
  lines_->finish();
  EXPECT_EQ(err_, "[ranks 1-2] warning: few images\n");
}

TEST_F(LinesTest, VerboseShowsAll) {
  start(3, true);
  out(2, "iteration 1\n");
  EXPECT_EQ(out_, "[rank 2] iteration 1\n");
}

TEST_F(LinesTest, TheSameErrorIsPrintedOnceWithItsRanks) {
  start(5);
  err(0, "kinet: the ranks differ\nhint: look\n");
  err(3, "kinet: the ranks differ\n");
  err(4, "kinet: the ranks differ\nhint: look\n");
  err(1, "kinet: something else\n");
  now_ += LineMerger::kHold / 2;
  lines_->release(now_);
  EXPECT_EQ(err_, "");
  EXPECT_DOUBLE_EQ(lines_->next_release(), 100 + LineMerger::kHold);
  lines_->release(now_ + LineMerger::kHold);
  EXPECT_EQ(err_,
            "[ranks 0, 3-4] kinet: the ranks differ\n[ranks 0, 4] hint: look\n"
            "[rank 1] kinet: something else\n");
}

TEST_F(LinesTest, OfRank0AloneAsItIsAndTwiceIsTwice) {
  start(2);
  err(0, "again\nagain\n");
  err(1, "both\n");
  err(0, "both\n");
  lines_->finish();
  EXPECT_EQ(err_, "again\nagain\n[all 2 ranks] both\n");
}

TEST_F(LinesTest, WhatAllHaveSaidNeedNotWait) {
  start(2);
  err(0, "wrong\n");
  err(1, "wrong\nmore\n");
  lines_->release(now_);
  EXPECT_EQ(err_, "[all 2 ranks] wrong\n");
  lines_->set_hold(5);
  lines_->release(now_ + 4.9);
  EXPECT_EQ(err_, "[all 2 ranks] wrong\n");
  lines_->release(now_ + 5);
  EXPECT_EQ(err_, "[all 2 ranks] wrong\n[rank 1] more\n");
}

TEST_F(LinesTest, ALineWithoutEndIsCut) {
  start(1);
  const std::string part(50000, 'x');
  out(0, part);
  EXPECT_EQ(out_, "");
  out(0, part);
  EXPECT_EQ(out_, part + part + "\n");
}

}  // namespace
}  // namespace kinet
