// What a virtual cluster trains: a function of many parameters with noisy gradients. A real net
// (net_problem.h) or a synthetic function (quadratic_problem.h).
//
// Thread safety: gradient() and test() may be called by several threads at once, each with a lane
// of its own; all else by one. Results depend on the arguments alone, not on lane or order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/optim/optimizer.h"

namespace kinet {

struct ProblemScore {
  double loss = 0;
  double accuracy = -1;  // 0 to 1; -1: there is no such thing
};

class Problem {
 public:
  virtual ~Problem() = default;
  virtual size_t floats() const = 0;                           // P, parameters
  virtual size_t buffers() const { return 0; }                 // B, batch-norm statistics
  virtual std::vector<ParameterSegment> segments() const = 0;  // of the P
  virtual void start(std::span<float> weights, std::span<float> buffers) const = 0;
  virtual int64_t batch_size() const = 0;      // samples of one gradient
  virtual int64_t items() const { return 0; }  // samples of an epoch; 0: there are no epochs
  virtual std::string describe() const = 0;

  // Loss and gradient (overwritten) of mini-batch `batch` of `worker` of `workers`. `buffers`: as
  // the worker got them; updated.
  virtual double gradient(int lane, std::span<const float> weights, std::span<float> buffers,
                          int worker, int workers, int64_t batch, std::span<float> gradient) = 0;
  // The loss of the same mini-batch at other weights, forward alone: a trial of a learning-rate
  // search. What gradient() returns at the same weights.
  virtual double loss(int lane, std::span<const float> weights, std::span<const float> buffers,
                      int worker, int workers, int64_t batch) = 0;
  virtual ProblemScore test(int lane, std::span<const float> weights,
                            std::span<const float> buffers) = 0;
};

}  // namespace kinet
