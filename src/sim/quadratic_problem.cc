#include "src/sim/quadratic_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/base/text.h"

namespace kinet {
namespace {

enum Stream : uint64_t { kMinimum, kStart, kNoise };

float eigenvalue(const QuadraticSettings& s, int64_t i) {
  const double place =
      s.dimension > 1 ? static_cast<double>(i) / static_cast<double>(s.dimension - 1) : 0;
  const double factor =
      s.log_spectrum ? std::pow(s.condition, -place) : 1 - place * (1 - 1 / s.condition);
  return static_cast<float>(s.curvature * factor);
}

}  // namespace

QuadraticProblem::QuadraticProblem(const QuadraticSettings& settings, uint64_t seed)
    : settings_(settings), seed_(seed) {
  Rng rng(seed, RngPurpose::kObjective, kMinimum);
  for (int64_t i = 0; i < settings.dimension; ++i) {
    eigenvalues_.push_back(eigenvalue(settings, i));
    minimum_.push_back(rng.gaussian());
  }
}

std::vector<ParameterSegment> QuadraticProblem::segments() const {
  std::vector<ParameterSegment> out;
  const auto parts = static_cast<size_t>(settings_.segments);
  for (size_t s = 0; s < parts; ++s) {
    const size_t begin = s * floats() / parts, end = (s + 1) * floats() / parts;
    out.push_back({begin, end - begin, 1, 1});
  }
  return out;
}

void QuadraticProblem::start(std::span<float> weights, std::span<float>) const {
  Rng rng(seed_, RngPurpose::kObjective, kStart);
  const auto scale = static_cast<float>(settings_.start);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = minimum_[i] + scale * rng.gaussian();
}

std::string QuadraticProblem::describe() const {
  return fmt::format("quadratic of {} parameters, condition {:g} ({} spectrum), noise {:g}",
                     with_commas(settings_.dimension), settings_.condition,
                     settings_.log_spectrum ? "log" : "linear", settings_.noise);
}

double QuadraticProblem::gradient(int, std::span<const float> weights, std::span<float>, int worker,
                                  int, int64_t batch, std::span<float> gradient) {
  return batch_loss(weights, worker, batch, gradient.data());
}

double QuadraticProblem::loss(int, std::span<const float> weights, std::span<const float>,
                              int worker, int, int64_t batch) {
  return batch_loss(weights, worker, batch, nullptr);
}

// f_b, and its gradient where it is wanted.
double QuadraticProblem::batch_loss(std::span<const float> weights, int worker, int64_t batch,
                                    float* gradient) const {
  Rng rng(seed_, RngPurpose::kObjective, kNoise, static_cast<uint64_t>(worker),
          static_cast<uint64_t>(batch));
  const auto noise =
      static_cast<float>(settings_.noise / std::sqrt(static_cast<double>(settings_.batch_size)));
  double twice = 0, linear = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const float away = weights[i] - minimum_[i], slope = eigenvalues_[i] * away;
    const float n = noise > 0 ? noise * rng.gaussian() : 0;
    twice += static_cast<double>(slope) * away;
    linear += static_cast<double>(n) * away;
    if (gradient != nullptr) gradient[i] = slope + n;
  }
  return 0.5 * twice + linear + settings_.floor;
}

ProblemScore QuadraticProblem::test(int, std::span<const float> weights, std::span<const float>) {
  double twice = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double away = static_cast<double>(weights[i]) - minimum_[i];
    twice += eigenvalues_[i] * away * away;
  }
  return {0.5 * twice, -1};
}

}  // namespace kinet
