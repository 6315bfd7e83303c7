#include "src/sim/virtual_worker.h"

#include <algorithm>
#include <cmath>

#include "src/math/vec.h"

namespace kinet {
namespace {

double norm_squared(std::span<const float> v) {
  return vec().sum_squares(static_cast<int64_t>(v.size()), v.data());
}

void receive(const WorkerKnows& knows, WorkerRule& rule, std::vector<float>& local, Push& push) {
  local.assign(push.at->begin(), push.at->begin() + static_cast<int64_t>(knows.problem->floats()));
  RuleAnswer answer;
  answer.iteration = push.iteration;
  answer.steps = push.steps;
  answer.schedule = knows.schedule;
  rule.received(local, answer);
}

void measure(const WorkerKnows& knows, double loss, Push& push) {
  push.loss = loss;
  push.norm_squared = norm_squared({push.values.data(), knows.problem->floats()});
  push.finite = std::isfinite(loss) && std::isfinite(push.norm_squared);
}

// Means over the mini-batches of a push, as a worker of a real run reports them.
void compute_steps(const WorkerKnows& knows, WorkerRule& rule, std::vector<float>& local,
                   std::span<float> buffers, Push& push, int lane, bool early) {
  const size_t floats = knows.problem->floats();
  std::vector<float> gradient(floats);
  double sum = 0;
  bool more = true;
  int64_t done = 0;
  while (more && std::isfinite(sum)) {
    const double loss = knows.problem->gradient(lane, local, buffers, push.worker, knows.workers,
                                                push.batch + done, gradient);
    sum += loss;
    ++done;
    const double length = knows.clip > 0 ? std::sqrt(norm_squared(gradient)) : 0;
    if (knows.clip > 0 && length > knows.clip) {
      vec().scale(static_cast<int64_t>(floats), static_cast<float>(knows.clip / length),
                  gradient.data(), gradient.data());
    }
    more = !rule.step(local, gradient, loss, done);
  }
  push.computed_loss = sum / static_cast<double>(done);
  if (early) return;
  push.steps = done;
  rule.push(local, gradient, {push.values.data(), floats});
  measure(knows, push.computed_loss, push);
}

}  // namespace

void begin_early(const WorkerKnows& knows, WorkerRule& rule, std::vector<float>& local,
                 Push& push) {
  const size_t floats = knows.problem->floats();
  push.values.resize(push.at->size());
  receive(knows, rule, local, push);
  rule.push(local, {}, {push.values.data(), floats});
  std::copy(push.at->begin() + static_cast<int64_t>(floats), push.at->end(),
            push.values.begin() + static_cast<int64_t>(floats));
  measure(knows, push.loss, push);
}

void compute_push(const WorkerKnows& knows, WorkerRule* rule, std::vector<float>& local, Push& push,
                  int lane, bool early) {
  const size_t floats = knows.problem->floats();
  const std::vector<float>& at = *push.at;
  std::vector<float> unused;
  if (!early) push.values.resize(at.size());
  if (early) unused.resize(at.size() - floats);
  const std::span<float> buffers =
      early ? std::span<float>(unused)
            : std::span<float>(push.values).subspan(floats, at.size() - floats);
  std::copy(at.begin() + static_cast<int64_t>(floats), at.end(), buffers.begin());
  if (rule != nullptr) {
    if (!early) receive(knows, *rule, local, push);
    compute_steps(knows, *rule, local, buffers, push, lane, early);
    return;
  }
  const double loss =
      knows.problem->gradient(lane, {at.data(), floats}, buffers, push.worker, knows.workers,
                              push.batch, {push.values.data(), floats});
  push.computed_loss = loss;
  measure(knows, loss, push);
}

}  // namespace kinet
