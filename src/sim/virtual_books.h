// What a virtual run is asked for: records to an observer, sums and averages for a result.
// Thread safety: none.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/sim/virtual_cluster.h"

namespace kinet {

class VirtualBooks {
 public:
  VirtualBooks(const VirtualSpec& spec, SolverObserver* observer)
      : spec_(spec), observer_(observer), waiting_(spec.workers) {
    for (const double accuracy : spec.targets) result.targets.push_back({accuracy, -1, -1});
  }

  void start(const Problem& problem, const std::string& policy, const std::string& type,
             size_t floats);
  void round(RoundRecord record, int64_t samples_used, int64_t members);
  void display(int64_t iteration, double seconds, double loss, double rate, double norm);
  void test(double seconds, double iteration, const ProblemScore& score);
  void finish(double seconds, double iteration, const std::string& reason);
  void moved(double at, uint64_t bytes, bool up);  // over the servers' links
  void all_reduced(int workers, uint64_t bytes);   // over those of the workers
  void waited(int worker, double seconds);
  void gap(double value) { gap_sum_ += value, ++gaps_; }
  void note(const std::string& text) {
    if (observer_ != nullptr) observer_->on_note(text);
  }
  bool watched() const { return observer_ != nullptr; }

  VirtualResult result;

 private:
  void link_statistics(double seconds);

  const VirtualSpec& spec_;
  SolverObserver* observer_;
  std::vector<double> waiting_;          // by worker since the last record
  std::map<int64_t, double> up_, down_;  // bytes by second
  double all_reduced_ = 0;
  double k_sum_ = 0, lag_sum_ = 0, gap_sum_ = 0, loss_ = 0, shown_at_ = 0;
  int64_t members_ = 0, gaps_ = 0, shown_ = 0, shown_samples_ = 0;
  int64_t batch_ = 1, items_ = 0;
};

}  // namespace kinet
