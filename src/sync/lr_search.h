// Learning-rate search: every worker finds, along its own mini-batch gradient, how far the rate of
// the solver file is from one that suits its weights, and keeps the ratio as a *multiplier*.
//
// Equation:  eta = m * schedule(iteration)
//   lr_policy gives the shape over the run, the search the scale. It compares rates m * base_lr, so
//   a schedule that decays is not undone by it.
// When: before the first update, then after growing intervals of 1, growth, growth^2 ... at most
//   `every` steps, and never so soon that the passes that searches may have taken exceed `budget`
//   of those of (steps so far + 200). Passes are counted, not timed: a run repeats itself bit for
//   bit, and workers with the same settings search in the same step, so none waits for another.
// How: a method (one file each, lr_*.cc) proposes a rate. It is held within base_lr / bounds and
//   base_lr * bounds and averaged geometrically, the n-th search with weight a:
//     log m  <-  (1 - a) log m + a log(proposal / base_lr),   a = max(1 / n, smoothing)
//   From step `rise_until` on m rises no higher than it was then: at a steady rate the loss along
//   most mini-batches allows a longer step, along the few that matter most it does not.
//   In the first `warmup` steps a rising part of it is used, (step + 1) / warmup: at the initial
//   weights the loss may be far flatter than a few updates later, and one search is no mean.
//
// Thread safety: one thread, the worker's.
// Invariants: 1 / bounds <= m <= bounds, after the warm-up. What is decided depends on the
// mini-batch, the weights and the state alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/registry.h"
#include "src/prototxt/fields.h"

namespace kinet {

// What a method may ask about the worker's mini-batch at its weights w, along the direction d in
// which an update moves them per unit of rate: d = lr_mult * gradient. Costs are in passes, of
// which a training step has three: one forward, and backward counts two.
class LrProbe {
 public:
  virtual ~LrProbe() = default;
  virtual double loss() const = 0;          // f(w); free
  virtual double slope() const = 0;         // <g, d> = -df/drate at rate 0; free
  virtual double loss_at(double rate) = 0;  // f(w - rate d), may be NaN or inf; one pass
  virtual double alignment() const = 0;     // cosine of g and the last update, 0: none yet; free
  virtual int64_t passes() const = 0;       // asked for so far
};

struct LrSearchOptions {
  std::string method = "none";
  double base_lr = 0, momentum = 0;
  int64_t every = 1000;
  double growth = 1.5, bounds = 64, smoothing = 0.1, budget = 0.1;
  int64_t warmup = 20, rise_until = 100;
  double sufficient = 0.1, horizon = 3;  // armijo, barzilai_borwein
  double sensitivity = 0.02;             // hypergradient
};

// All that a search remembers; saved in snapshots.
struct LrSearchState {
  double log_multiplier = 0;
  int64_t step = 0;  // gradients computed since the search began
  int64_t next = 0;  // step of the next search
  int64_t searches = 0, passes = 0;
  double log_ceiling = 0;  // of log_multiplier, from step rise_until on
};

struct LrNow {
  double rate = 0;     // in use
  double reach = 1;    // how long a step a rate of 1 is to be tried as: LrSearch::reach()
  bool first = false;  // it is not known yet whether the rate is anywhere near
};

class LrMethod {
 public:
  explicit LrMethod(const LrSearchOptions& options) : options_(options) {}
  virtual ~LrMethod() = default;
  // A rate for now, or 0 when this mini-batch says nothing.
  virtual double propose(LrProbe& probe, const LrNow& now) const = 0;
  virtual int64_t most_passes(bool first) const = 0;  // that propose() takes
  // true: propose() costs nothing and runs in each step, and what it says is taken as it is.
  virtual bool every_step() const { return false; }

 protected:
  const LrSearchOptions options_;
};

struct LrMethodType {
  std::string help;  // one line
  std::unique_ptr<LrMethod> (*make)(const LrSearchOptions&) = nullptr;
};
using LrMethodRegistry = Registry<LrMethodType>;

class LrSearch {
 public:
  // REQUIRES: a registered method (the solver file was checked).
  explicit LrSearch(const LrSearchOptions& options);

  double multiplier() const;  // for the gradient that advance() has counted last
  // How far momentum carries a gradient in the next h = horizon + horizon_share * steps updates,
  // per unit of rate: 1 + mu + ... + mu^(h-1). Early on the loss changes so fast that what momentum
  // still does in ten updates meets another gradient.
  double reach() const;
  bool due() const { return method_->every_step() || state_.step >= state_.next; }
  void search(LrProbe& probe);       // REQUIRES: due()
  void advance() { ++state_.step; }  // a gradient was computed

  const LrSearchState& state() const { return state_; }
  void restore(const LrSearchState& state) { state_ = state; }
  const LrSearchOptions& options() const { return options_; }

 private:
  int64_t next_search() const;

  const LrSearchOptions options_;
  std::unique_ptr<LrMethod> method_;
  LrSearchState state_;
};

// The fields of lr_search_param { ... }.
const MessageType& lr_search_fields();
// From a whole solver file; what makes no sense goes to `diagnostics`. Method "none": no search.
LrSearchOptions read_lr_search(const Params& solver, Diagnostics& diagnostics);

template <class Class>
bool register_lr_method(const std::string& name, const std::string& help) {
  return LrMethodRegistry::instance().add(
      name, {help, [](const LrSearchOptions& options) -> std::unique_ptr<LrMethod> {
               return std::make_unique<Class>(options);
             }});
}

#define KINET_REGISTER_LR_METHOD(Class, name, help)       \
  [[maybe_unused]] static const bool kRegistered##Class = \
      ::kinet::register_lr_method<Class>(name, help)

}  // namespace kinet
