// A quadratic with a chosen spectrum and chosen gradient noise: an objective whose every quantity
// is known, and so cheap that thousands of workers train on it in minutes.
//
// Equation:  f(x)   = 1/2 sum_i lambda_i (x_i - m_i)^2
//            f_b(x) = f(x) + n . (x - m) + floor,    n_i ~ N(0, noise^2 / batch_size)
// A mini-batch b of worker w has the loss f_b and its gradient lambda_i (x_i - m_i) + n_i, where n
// is a function of (seed, w, b); the test's loss is f itself. m ~ N(0, 1), and training starts at
// m + start * N(0, 1), both from the seed.
// Spectrum: largest eigenvalue `curvature`, smallest curvature / condition; between them evenly
// spaced (LINEAR), or their logarithms are (LOG).
// Randomness: all draws from RngPurpose::kObjective.
// Thread safety: const after construction; lanes share nothing that changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/prototxt/fields.h"
#include "src/sim/problem.h"

namespace kinet {

struct QuadraticSettings {
  int64_t dimension = 100, batch_size = 1, segments = 1;
  double condition = 100, curvature = 1;
  bool log_spectrum = true;
  double noise = 0.1, start = 1, floor = 1;

  static const MessageType& fields();
  static QuadraticSettings from(const Params& quadratic, Diagnostics& diagnostics);
};

class QuadraticProblem : public Problem {
 public:
  QuadraticProblem(const QuadraticSettings& settings, uint64_t seed);

  size_t floats() const override { return minimum_.size(); }
  std::vector<ParameterSegment> segments() const override;
  void start(std::span<float> weights, std::span<float> buffers) const override;
  int64_t batch_size() const override { return settings_.batch_size; }
  std::string describe() const override;
  double gradient(int lane, std::span<const float> weights, std::span<float> buffers, int worker,
                  int workers, int64_t batch, std::span<float> gradient) override;
  double loss(int lane, std::span<const float> weights, std::span<const float> buffers, int worker,
              int workers, int64_t batch) override;
  ProblemScore test(int lane, std::span<const float> weights,
                    std::span<const float> buffers) override;

  const std::vector<float>& eigenvalues() const { return eigenvalues_; }
  const std::vector<float>& minimum() const { return minimum_; }

 private:
  double batch_loss(std::span<const float> weights, int worker, int64_t batch,
                    float* gradient) const;

  const QuadraticSettings settings_;
  const uint64_t seed_;
  std::vector<float> eigenvalues_, minimum_;  // lambda, m
};

// Objectives in files of their own: objective { quadratic { ... } }.
const MessageType& objective_fields();
// `set`: fields that win over the file, "objective.quadratic.noise=0". Throws Error with all that
// is wrong with the file.
std::unique_ptr<Problem> load_objective(const std::string& path, uint64_t seed,
                                        const std::vector<std::string>& set = {});

}  // namespace kinet
