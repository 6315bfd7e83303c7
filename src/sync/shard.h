// The arithmetic of a server: its slice of the weights, the optimizer's state, and how the members
// of a round change them. No communication.
//
// Order of summation: fresh gradients are summed in the order of the plan, which is that of the
//   workers' numbers; the result depends on nothing else.
// Weight decay is applied once, at the server's weights, in proportion to the round's total weight
//   and with the mean of its members' rates.
// Thread safety: none; one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/optim/optimizer.h"
#include "src/sync/rule.h"
#include "src/sync/sync.h"

namespace kinet {

struct ShardSetup {
  std::span<float> weights;                // the slice
  std::span<float> history;                // optimizer state of the slice: histories() blocks
  std::vector<ParameterSegment> segments;  // offsets within the slice
  std::string solver_type = "SGD";
  OptimizerSettings settings;
  int64_t iter_size = 1;  // gradients are sums over so many micro-batches
  double clip = -1;       // largest norm of an applied gradient; not positive: no limit
  int workers = 1, threads = 1;
  bool gradients = true;  // what workers push; false: what the model's WorkerRule makes
};

// The part of the whole arena's segments that lies in [begin, end).
std::vector<ParameterSegment> cut_segments(std::span<const ParameterSegment> segments, size_t begin,
                                           size_t end);

class Shard {
 public:
  // `rule`: applies members of Use::kRule; null: there are none.
  explicit Shard(const ShardSetup& setup, std::unique_ptr<ServerRule> rule = nullptr);

  struct Member {
    PlanMember plan;
    float* gradient = nullptr;  // of the slice; overwritten
    double norm_squared = 0;    // |g|^2 of the whole gradient, as the worker says
  };

  struct Mean {
    bool known = false;
    double squared = 0;  // the slice's part of |mean|^2
    double product = 0;  // of <mean, mean of the last call>
  };
  // First half of a round: sums the fresh ones. `measure`: the mean of the grouped members as well
  // where it is not that sum; `product`: its inner product with the last one.
  Mean sum(const std::vector<Member>& members, bool measure, bool product);
  // Second half. `mean_squared`: over all slices. `step`: number of the update, from 1.
  // `publication`: gets what publish() gives afterwards, sooner where weights change piece by
  // piece; empty: nothing is wanted.
  void apply(const std::vector<Member>& members, int64_t step, double learning_rate,
             double mean_squared, std::span<float> publication = {});

  // What workers get in place of theta, and that one of them got it.
  bool publishes_weights() const {
    return own_arithmetic_ == nullptr || own_arithmetic_->publishes_weights();
  }
  void publish(std::span<float> out) const;
  void sent(int worker, std::span<const float> what);
  // What the model's rule has measured that is in no snapshot; "": nothing.
  std::string not_saved() const {
    return own_arithmetic_ == nullptr ? "" : own_arithmetic_->not_saved();
  }

  // Squares of the norms that rules for k ask for, of this slice.
  struct Norms {
    double momentum = 0;  // |v|^2, or of the sum of the workers' own momenta
    double moved = 0;     // |theta - theta at the last call|^2
    double weights = 0;
  };
  Norms measure();

  std::span<float> weights() const { return setup_.weights; }
  std::span<float> history() const { return setup_.history; }

  // Momenta of the workers, made on first use; empty: none yet.
  std::span<float> own_momentum(int worker);
  void forget_momentum(int worker);
  bool has_own_momentum(int worker) const { return !own_[worker].empty(); }

 private:
  void apply_fresh(int64_t step, double rate, double mean_squared);
  void apply_own(const std::vector<Member>& members, double rate, std::span<float> publication);
  void apply_late(const Member& member, double rate);
  void apply_difference();
  void apply_rule(const std::vector<Member>& members, double rate);
  void take_product(const float* mean, double scale, Mean& out);
  double member_scale(const Member& member) const;  // weight, averaging and clipping
  std::vector<ParameterSegment> decayed(double weight) const;

  ShardSetup setup_;
  std::unique_ptr<Optimizer> rule_, own_rule_;
  std::unique_ptr<ServerRule> own_arithmetic_;
  std::vector<std::vector<float>> own_;  // by worker
  std::vector<float> last_;              // weights at the last measurement
  std::vector<float> mean_, last_mean_;
  float* sum_ = nullptr;  // of the round: lies in the first fresh member's slot
  double sum_scale_ = 0, total_weight_ = 0;
  double mean_rate_ = 1;  // of the workers' own factors on the learning rate
  bool differences_ = false;
};

}  // namespace kinet
