// What the models of the DANA family have in common. Every push is applied as it comes
// (each_push.h) by a rule of the model's own; momentum and weight decay are those of the solver
// file, whose type must be SGD or Nesterov: the momentum's form is the model's.
//
// Notation of their heads: theta weights at the server, g the gradient of worker i, m momentum, eta
// the learning rate times the weight of the push (1/N, or push_weight) times the parameter's
// lr_mult; rate inside the momenta.
// Momentum correction (Goyal et al. 2017; `momentum_correction: true`): where eta changes by the
// factor rho, m becomes rho m for that update, so that v = eta V with V = m V + g, as in papers
// that have the rate outside. Off, v holds earlier gradients at the rates they came with.
#pragma once

#include <span>
#include <vector>

#include "src/sync/models/each_push.h"

namespace kinet {

class MomentumPush : public EachPush {
 public:
  void set_up(const Params& params, const SyncSetup& setup) override;

 protected:
  bool correction() const { return correction_; }

 private:
  bool correction_ = false;
};

// The factor that a momentum is kept with, by whose momentum it is.
class CarriedMomentum {
 public:
  void set_up(double momentum, bool correction, int count);
  // m, or rho m. `rate`: eta before lr_mult, of the update that is made now.
  float at(int which, double rate);
  float plain() const { return static_cast<float>(momentum_); }

 private:
  double momentum_ = 0;
  bool correction_ = false;
  std::vector<double> last_;  // rate of the last update; 0: none
};

class MomentumRule : public ServerRule {
 public:
  explicit MomentumRule(bool correction) : correction_(correction) {}
  void set_up(const RuleSetup& setup, const RuleSlice& slice) override;

 protected:
  // m; and m times rho, of the momentum of a worker or of the single one (0).
  float momentum() const { return carried_.plain(); }
  float carried(int which, const RulePush& push) {
    return carried_.at(which, push.weight * push.rate);
  }
  // The single momentum, of the slice's length.
  std::span<float> velocity() const { return history().first(theta().size()); }
  // v = kept v + part eta g;  theta -= v
  void step(std::span<const float> g, std::span<float> v, float kept, const RulePush& push,
            double part = 1) const;
  // Passes over vectors of step(), and of add_decay().
  static constexpr int kStepPasses = 5;
  int decay_passes() const { return setup().settings.weight_decay == 0 ? 0 : 3; }

 private:
  bool correction_;
  CarriedMomentum carried_;
};

// What each worker computes at: copies of what it was answered with. Those of a lost worker stay
// for gradients of it that are still to be applied, until its successor is answered. They are not
// in snapshots: whoever resumes answers all workers anew.
class SentCopies {
 public:
  void keep(int worker, std::span<const float> what);
  // theta itself where the worker was never answered.
  std::span<const float> of(int worker, std::span<const float> theta) const;
  static constexpr int kPasses = 2;

 private:
  std::vector<std::vector<float>> copies_;
};

// Delay compensation: g += lambda g g (theta - sent), element-wise; the diagonal of g g^T stands
// for the Hessian (Zheng et al. 2017).
void compensate_delay(std::span<float> g, float lambda, std::span<const float> theta,
                      std::span<const float> sent);

}  // namespace kinet
