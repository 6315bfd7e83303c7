// Elastic averaging: workers that train copies of their own, tied to a center at the servers.
//
// Equations, with x_i the weights of worker i at an exchange, c the center that it reads, and a the
// moving rate:
//   worker   x_i <- x_i - update(g(x_i)) - a (x_i - c)
//   center   W   <- W + a sum_i (x_i - c)              the sum in the order of the workers
// Both use the same c and x_i, those of before the exchange: what a worker moves is what the center
// moves the other way, and the gradient does not depend on the exchange, so that one may go on
// during the other. Between exchanges, `period` - 1 plain steps of the worker's own.
//
// How that comes to be: the worker pushes x_i; the server applies it and answers with c, as it was
// before the round; the worker moves when the answer comes. It begins at the center.
//
// Moving rate: a = beta / N, with N the workers that the run is set up with, whoever lives; or,
//   when rho > 0, a = eta rho with the schedule's eta. A synchronous round moves the center by
//   N a = beta of the way to the mean of the workers: 1 is plain averaging. lr_mult of a parameter
//   scales its gradient steps, not a.
// Stable on a quadratic of curvature h, without momentum, with period 1, where eta h <= 2 and
//   synchronous   N a <= (4 - 2 eta h) / (2 - eta h + 2 / N)        (ours; 2 for many workers)
//   in turn         a <= (4 - 2 eta h) / (4 - eta h)                (Zhang et al.)
// With rho, the worker takes eta at the iteration of the answer that it computed for, the server at
//   that of the round: the same number but for asynchronous pushes under way when the rate changes.
// Reference: Zhang, Choromanska and LeCun, "Deep learning with elastic averaging SGD", NIPS 2015
//   (beta = 0.9); You, Buluc and Demmel, "Scaling deep learning on GPU and Knights Landing
//   clusters", SC17 (rho).
#pragma once

#include <memory>

#include "src/prototxt/fields.h"
#include "src/sync/rule.h"

namespace kinet {

struct ElasticOptions {
  double beta = 0.9, rho = 0;
  int64_t period = 1;     // steps between exchanges
  bool momentum = false;  // the workers' steps have the solver file's; else plain SGD
  bool early = false;     // x_i leaves before its gradient is computed
  bool together = false;  // rounds are of all workers
  bool unlocked = false;  // the center that is read misses an exchange that is going on

  double moving_rate(double eta, int workers) const { return rho > 0 ? eta * rho : beta / workers; }
  std::string describe() const;
};

// easgd_* of sync_param. Throws Error at the place of a wrong one.
ElasticOptions read_elastic(const Params& sync_param);

class ElasticWorker : public WorkerRule {
 public:
  explicit ElasticWorker(const ElasticOptions& options) : options_(options) {}
  void set_up(const RuleSetup& setup, size_t floats) override;
  void received(std::span<float> weights, const RuleAnswer& answer) override;
  bool step(std::span<float> weights, std::span<float> gradient, double loss,
            int64_t number) override;
  void push(std::span<const float> weights, std::span<const float> gradient,
            std::span<float> out) override;
  bool pushes_early() const override { return options_.early && options_.period == 1; }
  bool pushes_weights() const override { return true; }

 private:
  void move(std::span<float> weights, std::span<float> gradient, int64_t number);

  const ElasticOptions options_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> history_;
  std::vector<float> sent_;  // x_i of the exchange; empty: there was none
  std::vector<float> next_;  // x_i - update(g(x_i))
  RuleAnswer answer_;
  int64_t updates_ = 0;
};

// Without the lock of the servers (Hogwild), two exchanges may overlap, and each misses what the
// other writes. Pushes are applied one at a time here, so that is modelled, as its most regular
// case: an exchange reads the center as it was before the exchange before it, if that was another
// worker's. Worker and center use the same c all the same. Reads are never torn.
class ElasticCenter : public ServerRule {
 public:
  explicit ElasticCenter(const ElasticOptions& options) : options_(options) {}
  void begin_round() override;
  void apply(const RulePush& push) override;
  void publish(std::span<float> out) const override;
  bool publishes_weights() const override { return false; }
  // What is read and written for a member, and for c: once in a round of all.
  int passes() const override { return options_.unlocked ? 10 : options_.together ? 6 : 8; }
  std::string not_saved() const override {
    return "the workers' own copies of the weights; they begin anew at the center";
  }

 private:
  const ElasticOptions options_;
  std::vector<float> read_;    // c; empty: no round yet
  std::vector<float> before_;  // the center before the exchange before (unlocked)
  int last_ = -1;              // whose that was
};

}  // namespace kinet
