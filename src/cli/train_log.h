// What `kinet train` prints. Two observers show the same run: CaffeLog writes the lines that tools
// for Caffe's logs read, LiveLog keeps one line at the foot of a terminal up to date.
// Thread safety: none; the solver's thread calls.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "src/solver/observer.h"
#include "src/solver/round_history.h"

namespace kinet {

using LineSink = std::function<void(const std::string& line)>;

// Seed and how to repeat it, threads, data, where the run begins: common to both.
std::vector<std::string> start_lines(const StartRecord& record);

class CaffeLog : public SolverObserver {
 public:
  CaffeLog(LineSink line, LineSink warning)
      : line_(std::move(line)), warning_(std::move(warning)) {}

  void on_start(const StartRecord& record) override;
  void on_round(const RoundRecord& record) override;
  void on_display(const DisplayRecord& record) override;
  void on_test(const TestRecord& record) override;
  void on_snapshot(int64_t iteration, const std::string& path) override;
  void on_note(const std::string& text) override;
  void on_warning(const std::string& text) override;
  void on_finish(const FinishRecord& record) override;

 private:
  void tell_rounds(const DisplayRecord& record);

  LineSink line_, warning_;
  std::set<int> coverage_told_;  // test nets
  int workers_ = 1;
  RoundBucket rounds_;  // since the last display
  double last_round_ = 0;
};

// The numbers of the live line.
struct LiveState {
  int64_t iteration = 0, max_iterations = 0;
  double epoch = -1;  // -1: unknown
  double loss = 0;
  std::string score;             // "accuracy 0.8512" of the last test, or ""
  double images_per_second = 0;  // 0: unknown
  double seconds_left = -1;      // -1: unknown
};

// " 12% 1,200/10,000  epoch 1.28  loss 0.4512  accuracy 0.8423  25,312 images/s  ETA 3m 20s"; what
// does not fit into `width` columns is left off, the last part first.
std::string live_line(const LiveState& state, int width);

class LiveLog : public SolverObserver {
 public:
  struct Screen {
    LineSink line, warning, live;
    std::function<int()> width;
  };
  explicit LiveLog(Screen screen) : screen_(std::move(screen)) {}

  void on_start(const StartRecord& record) override;
  void on_iteration(int64_t iteration, double loss) override;
  void on_display(const DisplayRecord& record) override;
  void on_test(const TestRecord& record) override;
  void on_snapshot(int64_t iteration, const std::string& path) override;
  void on_note(const std::string& text) override;
  void on_warning(const std::string& text) override;
  void on_finish(const FinishRecord& record) override;

 private:
  using Clock = std::chrono::steady_clock;
  void measure(Clock::time_point now);
  void wrapped(const std::string& text);  // a line, broken between words

  Screen screen_;
  StartRecord start_;
  LiveState state_;
  Clock::time_point began_, drawn_, measured_;
  int64_t measured_iteration_ = 0;
  std::set<int> coverage_told_;
};

}  // namespace kinet
