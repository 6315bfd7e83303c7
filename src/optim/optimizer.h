// Optimizers: how weights move, given the gradient. One file for each rule; all work on whole
// arenas, so that one call updates every parameter of a net.
//
// Notation in the rules' headers: w weight, g gradient (averaged, clipped, regularised), eta the
// learning rate of this step times the parameter's lr_mult, t the number of this update from 1.
// The learning rate is inside the history where there is momentum (v = mu v + eta g; w -= v), as
// Caffe has it, so a change of eta takes effect smoothly.
//
// Regularisation (all but AdamW): L2  g += lambda w,  L1  g += lambda sign(w), where lambda =
// weight_decay * decay_mult.
// Thread safety: an optimizer is immutable; one thread updates one set of arenas at a time.
// Invariants: the result does not depend on the number of threads; padding between segments is not
// touched.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/registry.h"

namespace kinet {

enum class Regularization { kL2, kL1 };

// The numbers of a solver file that rules read; defaults are Caffe's.
struct OptimizerSettings {
  float momentum = 0;        // mu; beta1 of Adam; decay of AdaDelta
  float momentum2 = 0.999F;  // beta2 of Adam
  float rms_decay = 0.99F;   // of RMSProp
  float delta = 1e-8F;       // keeps divisions from zero
  float weight_decay = 0;
  Regularization regularization = Regularization::kL2;
};

// One parameter's place in the arenas.
struct ParameterSegment {
  size_t offset = 0, count = 0;  // floats
  float lr_mult = 1, decay_mult = 1;
};

// All blocks have the same layout. `history` holds histories() of them, one after the other.
struct UpdateArenas {
  std::span<float> weights;
  std::span<const float> gradients;  // sums over micro-batches
  std::span<float> history;
};

struct UpdateStep {
  int64_t step = 1;          // t
  double learning_rate = 0;  // before lr_mult
  float gradient_scale = 1;  // averaging and clipping: g starts as scale * gradient
  int threads = 1;
};

class Optimizer {
 public:
  // A run of floats of one segment, with g ready to use.
  struct Slice {
    int64_t n = 0;
    float* w = nullptr;
    const float* g = nullptr;
    float* h1 = nullptr;  // null when histories() is less
    float* h2 = nullptr;
    float rate = 0;   // eta
    float decay = 0;  // lambda, for rules with decoupled decay
    int64_t step = 1;
  };

  explicit Optimizer(const OptimizerSettings& settings) : settings_(settings) {}
  virtual ~Optimizer() = default;

  // Blocks of state a parameter has: 1, or 2 (second moments follow all first ones).
  virtual int histories() const = 0;

  // One update of all segments. REQUIRES: history.size() == histories() * weights.size()
  void update(std::span<const ParameterSegment> segments, const UpdateStep& step,
              const UpdateArenas& arenas) const;

 protected:
  virtual void apply(const Slice& slice) const = 0;
  // true: the rule itself decays the weights, and g is left without lambda.
  virtual bool decoupled_decay() const { return false; }

  const OptimizerSettings settings_;

 private:
  void update_block(const ParameterSegment& segment, size_t begin, size_t end,
                    const UpdateStep& step, const UpdateArenas& arenas) const;
};

// What a registered rule tells about itself.
struct OptimizerType {
  std::string type;           // "SGD"
  std::string help;           // one line: the rule
  bool uses_momentum = true;  // false: momentum in the solver file is an error, as in Caffe
  std::unique_ptr<Optimizer> (*make)(const OptimizerSettings&) = nullptr;
};

using OptimizerRegistry = Registry<OptimizerType>;

// REQUIRES: a registered type (the solver file was checked).
std::unique_ptr<Optimizer> make_optimizer(const std::string& type,
                                          const OptimizerSettings& settings);

template <class Class>
bool register_optimizer() {
  OptimizerType type = Class::describe();
  type.make = [](const OptimizerSettings& settings) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Class>(settings);
  };
  const std::string name = type.type;
  return OptimizerRegistry::instance().add(name, std::move(type));
}

#define KINET_REGISTER_OPTIMIZER(Class) \
  [[maybe_unused]] static const bool kRegistered##Class = ::kinet::register_optimizer<Class>()

// Square root of the sum of squares, accumulated in double in an order that does not depend on the
// number of threads. Not finite as soon as one element is not.
double gradient_norm(std::span<const float> gradients, int threads);

}  // namespace kinet
