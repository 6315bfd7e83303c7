// What a synchronisation model does with pushes where the solver's own rule is not it: arithmetic
// at the servers (ServerRule) and at the workers (WorkerRule). Most models need neither; the
// DANA family has rules of the first kind, local SGD, elastic averaging and SaPus of the second.
//
// One round, with both:   worker: received() -> gradient -> step() ... -> push()
//                         server: begin_round(), apply() for each member, end_round(), publish()
// Learning rate inside momenta everywhere (v = m v + eta g; theta -= v), as src/optim has it.
// Randomness: none of their own; both are functions of what they were given, in its order.
// Ownership: spans belong to the caller and outlive the call alone, but for those of set_up().
// Thread safety: none; an object belongs to one rank (or one virtual worker).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/optim/optimizer.h"

namespace kinet {

// What both know of the run. `segments` lie within the slice (servers) or the arena (workers).
struct RuleSetup {
  std::vector<ParameterSegment> segments;
  OptimizerSettings settings;       // momentum, weight decay
  std::string solver_type = "SGD";  // of the solver file
  int workers = 1;
  int threads = 1;
  int64_t iter_size = 1;  // a worker's gradient is a sum over so many micro-batches
};

// The slice of one server.
struct RuleSlice {
  std::span<float> weights;  // theta
  std::span<float> history;  // of the solver's rule, zeros at first; kept in snapshots
  // A vector of each worker at this slice, zeros at first, kept in snapshots, forgotten with it.
  std::function<std::span<float>(int worker)> own;
};

struct RulePush {
  int worker = 0;
  std::span<float> values;  // gradient, averaged and clipped, or what push() made; may be
                            // overwritten
  double weight = 1;        // of the plan
  double rate = 0;          // eta: schedule times the worker's own factor
  int lag = 0;              // versions between the weights it was computed at and now
};

// values += part * weight_decay * decay_mult * theta (L1: its sign), by segment.
void add_weight_decay(const RuleSetup& setup, std::span<const float> theta, double part,
                      std::span<float> values);

class ServerRule {
 public:
  virtual ~ServerRule() = default;
  virtual void set_up(const RuleSetup& setup, const RuleSlice& slice);

  // A round: its members in the order of the workers' numbers, applied one after the other.
  virtual void begin_round() {}
  virtual void apply(const RulePush& push) = 0;
  virtual void end_round() {}

  // What workers are answered with; theta unless a model says otherwise. Tests and snapshots are of
  // theta.
  virtual void publish(std::span<float> out) const;
  virtual bool publishes_weights() const { return true; }  // publish() copies theta: no copy needed
  // The worker was answered with these, as publish() made them.
  virtual void sent(int /*worker*/, std::span<const float> /*what*/) {}
  virtual void forget(int /*worker*/) {}  // it is lost, or a successor begins
  // Times that a member's round reads or writes a vector of the slice's length: what modelled
  // servers need for it (src/sim).
  virtual int passes() const { return 3; }
  // State beside history and own vectors is not in snapshots; "" where there is none, else what is
  // lost, for a note when a run goes on.
  virtual std::string not_saved() const { return ""; }

 protected:
  const RuleSetup& setup() const { return setup_; }
  std::span<float> theta() const { return slice_.weights; }
  std::span<float> history() const { return slice_.history; }
  std::span<float> own(int worker) const { return slice_.own(worker); }
  // values += part * weight_decay * decay_mult * theta, by segment.
  void add_decay(std::span<float> values, double part = 1) const;
  // f(segment's offset, count, eta * lr_mult as float) for every segment.
  void each_segment(double rate, const std::function<void(size_t, size_t, float)>& f) const;

 private:
  RuleSetup setup_;
  RuleSlice slice_;
};

// What a worker knows of the answer that it computes for.
struct RuleAnswer {
  int64_t iteration = 0;  // of the run
  int64_t steps = 1;      // mini-batches that the servers ask for, at least
  std::function<double(int64_t iteration)> schedule;  // learning rate
};

class WorkerRule {
 public:
  virtual ~WorkerRule() = default;
  virtual void set_up(const RuleSetup& setup, size_t floats);

  // What the servers sent lies in `weights`; afterwards the weights to compute at lie there.
  virtual void received(std::span<float> weights, const RuleAnswer& answer) = 0;
  // After a mini-batch: `gradient` averaged, may be overwritten; `weights` are those it was
  // computed at, and may be moved. `number`: of the steps since received(), from 1.
  // true: push now.
  virtual bool step(std::span<float> weights, std::span<float> gradient, double loss,
                    int64_t number) = 0;
  // What goes to the servers. `weights` as step() left them.
  virtual void push(std::span<const float> weights, std::span<const float> gradient,
                    std::span<float> out) = 0;
  // What push() sends is known when received() returns: it leaves before the gradient is computed
  // (overlap), and may not depend on `gradient`.
  virtual bool pushes_early() const { return false; }
  // push() sends weights, not a gradient or a difference: small values are not small changes.
  virtual bool pushes_weights() const { return false; }
  // A bound on the steps of one push, for those who model time; 0: always RuleAnswer::steps.
  virtual int64_t most_steps() const { return 0; }

 protected:
  const RuleSetup& setup() const { return setup_; }
  size_t floats() const { return floats_; }

 private:
  RuleSetup setup_;
  size_t floats_ = 0;
};

}  // namespace kinet
