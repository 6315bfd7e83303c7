#include "src/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/check.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

// Floats handled at once: gradient, weights and two histories of a block stay in the first-level
// cache between regularisation and the rule (4 * 2048 * 4 bytes = 32 KB).
constexpr size_t kBlock = 2048;
// Below this many floats for each thread a second one costs more than it brings.
constexpr int64_t kFloatsPerThread = 16384;

struct Block {
  const ParameterSegment* segment;
  size_t begin, end;  // within the segment
};

std::vector<Block> blocks_of(std::span<const ParameterSegment> segments) {
  std::vector<Block> blocks;
  for (const ParameterSegment& segment : segments) {
    if (segment.lr_mult == 0) continue;  // frozen: neither weights nor history move
    for (size_t begin = 0; begin < segment.count; begin += kBlock) {
      blocks.push_back({&segment, begin, std::min(segment.count, begin + kBlock)});
    }
  }
  return blocks;
}

// g = scale g + lambda w  or  g = scale g + lambda sign(w)
void regularise(int64_t n, float scale, float lambda, Regularization kind, const float* w,
                float* g) {
  if (lambda == 0) {
    if (scale != 1) vec().scale(n, scale, g, g);
  } else if (kind == Regularization::kL2) {
    vec().axpby(n, lambda, w, scale, g);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const float sign = static_cast<float>(w[i] > 0) - static_cast<float>(w[i] < 0);
      g[i] = scale * g[i] + lambda * sign;
    }
  }
}

int useful_threads(int threads, int64_t floats) {
  return static_cast<int>(std::clamp<int64_t>(floats / kFloatsPerThread, 1, threads));
}

}  // namespace

void Optimizer::update(std::span<const ParameterSegment> segments, const UpdateStep& step,
                       const UpdateArenas& arenas) const {
  KINET_DCHECK(arenas.history.size() == arenas.weights.size() * static_cast<size_t>(histories()));
  const std::vector<Block> blocks = blocks_of(segments);
  const int threads =
      useful_threads(std::max(1, step.threads), static_cast<int64_t>(blocks.size() * kBlock));
  parallel_for(threads, static_cast<int64_t>(blocks.size()), [&](int64_t first, int64_t last, int) {
    for (int64_t b = first; b < last; ++b) {
      update_block(*blocks[b].segment, blocks[b].begin, blocks[b].end, step, arenas);
    }
  });
}

void Optimizer::update_block(const ParameterSegment& segment, size_t begin, size_t end,
                             const UpdateStep& step, const UpdateArenas& arenas) const {
  const size_t at = segment.offset + begin;
  // Of the gradient a copy is used up, in the cache: memory that is written costs as much as
  // memory that is read.
  std::array<float, kBlock> g;
  const float* gradient = arenas.gradients.data() + at;
  std::copy(gradient, gradient + (end - begin), g.begin());
  const float lambda = settings_.weight_decay * segment.decay_mult;
  Slice slice;
  slice.n = static_cast<int64_t>(end - begin);
  slice.w = arenas.weights.data() + at;
  slice.g = g.data();
  if (histories() > 0) slice.h1 = arenas.history.data() + at;
  if (histories() > 1) slice.h2 = arenas.history.data() + arenas.weights.size() + at;
  slice.rate = static_cast<float>(step.learning_rate * segment.lr_mult);
  slice.decay = lambda;
  slice.step = step.step;
  regularise(slice.n, step.gradient_scale, decoupled_decay() ? 0 : lambda, settings_.regularization,
             slice.w, g.data());
  apply(slice);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& type,
                                          const OptimizerSettings& settings) {
  const OptimizerType* entry = OptimizerRegistry::instance().find(type);
  if (entry == nullptr) {
    const auto names = OptimizerRegistry::instance().names();
    fail("unknown solver type '{}'{}; known: {}", type, did_you_mean(type, names),
         join(names, ", "));
  }
  return entry->make(settings);
}

double gradient_norm(std::span<const float> gradients, int threads) {
  constexpr int64_t kPart = 8192;  // floats in one partial sum, whatever the number of threads
  const auto n = static_cast<int64_t>(gradients.size());
  std::vector<double> sums(static_cast<size_t>((n + kPart - 1) / kPart));
  parallel_for(useful_threads(std::max(1, threads), n), static_cast<int64_t>(sums.size()),
               [&](int64_t first, int64_t last, int) {
                 for (int64_t p = first; p < last; ++p) {
                   const int64_t count = std::min(kPart, n - p * kPart);
                   sums[p] = vec().sum_squares(count, gradients.data() + p * kPart);
                 }
               });
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

}  // namespace kinet
