// YellowFin: learning rate and momentum are tuned at the server from the gradients that come, first
// come first served.
//
// Running means E of decay b (yf_beta), all freed of their bias; eps = 1e-6. For g, number t from
// 0:
//   h = |g|^2;  h_min, h_max = exp E[log of the least, largest h of the last yf_window]
//   C = E|g|^2 - |E g|^2             variance of gradients, at least eps
//   D = E[ E|g| / E|g|^2 ]           distance to the optimum
//   x = sqrt(mu) solves  p x = (1 - x)^3,  p = D^2 h_min^2 / (2 C), in closed form:
//     w^3 = -(sqrt(p^2 + 4/27 p^3) + p) / 2,  y = w - p / (3 w),  x = y + 1
//   mu  = max(x^2, ((sqrt(r) - 1) / (sqrt(r) + 1))^2),  r = h_max / h_min
//   eta = (1 - sqrt(mu))^2 / h_min, in the first 10 windows times (t + 1) / (10 yf_window)
// Server:  v = mu v + w eta g;  theta -= v;  send theta          w: weight of the push
// base_lr and momentum of the solver file are not used; where the schedule falls, eta falls by the
// same factor (of the largest rate so far). Weight decay counts as part of g.
// Ours: tuning begins with the first gradient, h_max is smoothed by its logarithm as h_min is, and
// gradients are not clipped but by clip_gradients. The closed-loop form, which measures the
// momentum that asynchrony adds, is not here. Reference: Zhang, Mitliagkas, "YellowFin and the art
// of momentum tuning", MLSys 2019, arXiv 1706.03471.
#include <algorithm>
#include <cmath>

#include "src/math/vec.h"
#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

constexpr double kEpsilon = 1e-6;

struct TunerOptions {
  double beta = 0.999;
  int64_t window = 20;
};

// The equations above, of numbers.
class YellowFinTuner {
 public:
  explicit YellowFinTuner(const TunerOptions& options)
      : beta_(options.beta), recent_(static_cast<size_t>(options.window), 0.0) {}

  // |g|^2, and |m|^2 of the running mean m of gradients as it is, with its bias.
  void add(double h, double mean_squared) {
    recent_[static_cast<size_t>(count_) % recent_.size()] = h;
    const auto end = recent_.begin() + std::min<int64_t>(count_ + 1, std::ssize(recent_));
    const auto [low, high] = std::minmax_element(recent_.begin(), end);
    const double known = 1 - std::pow(beta_, static_cast<double>(++count_));
    h_min_ = std::exp(mean(log_min_, std::log(*low + kEpsilon)) / known);
    h_max_ = std::exp(mean(log_max_, std::log(*high + kEpsilon)) / known);
    mean(square_, h);
    variance_ = std::max(square_ / known - mean_squared / (known * known), kEpsilon);
    mean(norm_, std::sqrt(h));
    distance_ = mean(ratio_, norm_ / (square_ + kEpsilon)) / known;
    solve();
  }
  double momentum() const { return momentum_; }
  double rate() const { return rate_; }

 private:
  double mean(double& of, double value) const { return of = beta_ * of + (1 - beta_) * value; }

  void solve() {
    const double p = std::pow((distance_ + kEpsilon) * (h_min_ + kEpsilon), 2) / 2 / variance_;
    const double w = -std::cbrt((std::sqrt(p * p + 4.0 / 27 * p * p * p) + p) / 2);
    const double x = std::clamp(w - p / (3 * w) + 1, 0.0, 1.0);
    const double root = std::sqrt(std::max(1.0, h_max_ / h_min_));
    const double least = (root - 1) / (root + 1);
    momentum_ = std::max(x * x, least * least);
    const double slow = static_cast<double>(count_) / (10.0 * static_cast<double>(recent_.size()));
    rate_ = std::pow(1 - std::sqrt(momentum_), 2) / (h_min_ + kEpsilon) * std::min(1.0, slow);
  }

  double beta_;
  std::vector<double> recent_;                                            // h of the window, a ring
  int64_t count_ = 0;                                                     // gradients so far
  double log_min_ = 0, log_max_ = 0, square_ = 0, norm_ = 0, ratio_ = 0;  // with their bias
  double h_min_ = 0, h_max_ = 0, variance_ = 0, distance_ = 0;
  double momentum_ = 0, rate_ = 0;
};

class YellowFinRule : public MomentumRule {
 public:
  explicit YellowFinRule(const TunerOptions& options)
      : MomentumRule(false), beta_(options.beta), tuner_(options) {}

  void set_up(const RuleSetup& setup, const RuleSlice& slice) override {
    MomentumRule::set_up(setup, slice);
    mean_.assign(slice.weights.size(), 0.0F);
  }
  void apply(const RulePush& push) override {
    add_decay(push.values);
    const auto n = static_cast<int64_t>(mean_.size());
    vec().axpby(n, static_cast<float>(1 - beta_), push.values.data(), static_cast<float>(beta_),
                mean_.data());
    tuner_.add(vec().sum_squares(n, push.values.data()), vec().sum_squares(n, mean_.data()));
    largest_ = std::max(largest_, push.rate);
    RulePush tuned = push;
    tuned.rate = largest_ > 0 ? tuner_.rate() * push.rate / largest_ : 0;
    step(push.values, velocity(), static_cast<float>(tuner_.momentum()), tuned);
  }
  int passes() const override { return kStepPasses + 5 + decay_passes(); }
  std::string not_saved() const override {
    return "what yellowfin has measured, which begins anew with its slow start";
  }

 private:
  double beta_;
  YellowFinTuner tuner_;
  double largest_ = 0;       // rate of the schedule so far
  std::vector<float> mean_;  // of gradients, with its bias
};

class YellowFin : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"yellowfin", "as they come; rate and momentum are tuned at the server"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    MomentumPush::set_up(params, setup);
    options_.beta = params.get_double("yf_beta");
    options_.window = params.get_int("yf_window");
    if (!(options_.beta > 0 && options_.beta < 1)) {
      fail_at(params.where("yf_beta"),
              fmt::format("yf_beta must lie between 0 and 1, got {:g}", options_.beta));
    }
    if (options_.window < 1 || options_.window > kMostWindow) {
      fail_at(params.where("yf_window"),
              fmt::format("yf_window must be 1 to {}, got {}", kMostWindow, options_.window));
    }
    if (params.get_int("servers") > 1) {
      fail_at(params.where("servers"),
              "yellowfin measures whole gradients, a server of several has "
              "a slice of them\nhint: servers: 1");
    }
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<YellowFinRule>(options_);
  }
  std::string describe() const override {
    return "asynchronous, rate and momentum tuned by YellowFin";
  }

 private:
  static constexpr int64_t kMostWindow = 100000;
  TunerOptions options_;
};
KINET_REGISTER_SYNC(YellowFin);

}  // namespace
}  // namespace kinet
