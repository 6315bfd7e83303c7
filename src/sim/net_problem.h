// The nets of a solver file as a problem of a virtual cluster: gradients and tests of real
// training, without a worker's memory for each worker.
//
// Mini-batch b of worker w of N has the items, the random numbers and the bits of
// `kinet train --threads 1` with N workers (src/solver/worker.cc); gradient and loss are means
// over iter_size micro-batches. A lane has the train net
// and the test nets, and one thread; a worker has nothing here. Data are read when they are asked
// for (prefetch 0), since a lane jumps from worker to worker.
// Memory: weights on 64-byte boundaries are read where they lie, others are copied.
// Thread safety: Problem's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/sim/problem.h"
#include "src/solver/solver.h"

namespace kinet {

struct NetProblemOptions {
  uint64_t seed = 0;
  int workers = 1;  // fixed_global_batch divides the batch among them
  int lanes = 1;
  std::vector<std::string> weights;  // .caffemodel files to start from, copied by layer name
};

class NetProblem : public Problem {
 public:
  // Throws Error for nets that cannot be built, or learn nothing.
  NetProblem(std::shared_ptr<const SolverConfig> config, const NetProblemOptions& options);
  ~NetProblem() override;

  size_t floats() const override { return start_weights_.size(); }
  size_t buffers() const override { return start_buffers_.size(); }
  std::vector<ParameterSegment> segments() const override { return segments_; }
  void start(std::span<float> weights, std::span<float> buffers) const override;
  int64_t batch_size() const override;
  int64_t items() const override;
  std::string describe() const override;
  double gradient(int lane, std::span<const float> weights, std::span<float> buffers, int worker,
                  int workers, int64_t batch, std::span<float> gradient) override;
  double loss(int lane, std::span<const float> weights, std::span<const float> buffers, int worker,
              int workers, int64_t batch) override;
  // Of the first test net, over its whole set or test_iter batches; accuracy: the first output of
  // an Accuracy layer.
  ProblemScore test(int lane, std::span<const float> weights,
                    std::span<const float> buffers) override;

 private:
  struct Lane;
  struct MiniBatch {
    int worker = 0, workers = 1;
    int64_t number = 0;
  };
  std::unique_ptr<Lane> make_lane() const;
  void seek(Lane& lane, const MiniBatch& batch) const;
  Context context(Phase phase, int64_t pass) const;
  int64_t pass_number(const MiniBatch& batch, int64_t micro) const;

  const std::shared_ptr<const SolverConfig> config_;
  const uint64_t seed_;
  const int workers_;
  const int64_t iter_size_;
  bool divided_ = false;  // fixed_global_batch: for workers_ alone
  ParamNode train_net_;   // as lanes build it
  std::vector<ParamNode> test_nets_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<float> start_weights_, start_buffers_;
  std::vector<ParameterSegment> segments_;
  std::string accuracy_;  // the output's name, or ""
};

}  // namespace kinet
