// A cluster in virtual time that trains the problem of k_rule_problem.h in look-ahead form, with k
// chosen by a KController. The gradients are real, the clock is modelled.
//
// Look-ahead (DANA-Slim form, learning rate inside): worker i pulls weights Theta, computes g, then
//   v_i = gamma v_i + eta g;   Theta <- Theta - (gamma v_i + eta g) / N
// The server publishes after k gradients; a worker that has pushed waits for the next publication.
//
// Clocks, in units of a mean step: alike: gamma-distributed times with a spread of 0.1; machines:
// each machine's mean with a spread of 0.6, drawn once; slowdowns: as alike, and a step in ten
// takes five times as long; straggler: as alike, worker 1 five times slower; server: as machines,
// and the server needs 0.005 a gradient and 0.2 a publication. Reference for the gamma clock: Ali
// et al. 2000, as used by DANA (Hakimi et al. 2019).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/k_rule_problem.h"
#include "src/base/event_queue.h"
#include "src/sync/gradient_noise.h"
#include "src/sync/k_controller.h"

namespace kinet {

struct StudySettings {
  std::string clock = "alike";
  int workers = 32, batch = 16;
  double rate = 0.1, momentum = 0.9;
  double warm_up = 20;  // iterations in which the rate rises from 0
  double drop_at = 0;   // time at which the rate falls to a tenth; 0: never
  double time = 160;    // mean steps
  uint64_t seed = 1;
  int test_every = 200;  // gradients
};

class StudyClock {
 public:
  StudyClock(const StudySettings& s) : s_(s), machine_(s.workers, 1.0) {
    if (s.clock == "straggler") machine_[1 % s.workers] = 5;
    if (s.clock != "machines" && s.clock != "server") return;
    for (int i = 0; i < s.workers; ++i) {
      Rng rng(s.seed, RngPurpose::kTest, 1, i);
      machine_[i] = gamma(rng, 0.6);
    }
  }

  double step(int worker, uint64_t number) const {
    Rng rng(s_.seed, RngPurpose::kTest, 2, worker, number);
    const double time = machine_[worker] * gamma(rng, 0.1);
    return s_.clock == "slowdowns" && rng.bernoulli(0.1F) ? 5 * time : time;
  }

  ServiceTime service() const {
    return s_.clock == "server" ? ServiceTime{0.005, 0.2} : ServiceTime{};
  }

 private:
  // Mean 1, standard deviation `spread` (Marsaglia and Tsang 2000).
  static double gamma(Rng& rng, double spread) {
    const double shape = 1 / (spread * spread), d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = rng.gaussian(), v = std::pow(1 + c * x, 3);
      if (v <= 0) continue;
      if (std::log(rng.uniform() + 1e-30) < 0.5 * x * x + d - d * v + d * std::log(v)) {
        return d * v / shape;
      }
    }
  }

  StudySettings s_;
  std::vector<double> machine_;  // mean step time
};

struct StudyPoint {
  double time = 0, loss = 0, accuracy = 0;
  int k = 0;
  double noise = 0, gap = 0;  // T/(N G2), (1+gamma) |v| / |theta|
};

class StudyRun {
 public:
  StudyRun(Problem& problem, const StudySettings& s, KController& controller)
      : problem_(problem),
        s_(s),
        clock_(s),
        controller_(controller),
        theta_(Problem::start(s.seed)),
        pulled_(s.workers, theta_),
        v_(s.workers, std::vector<float>(theta_.size())),
        mean_v_(theta_.size()),
        version_of_(s.workers),
        steps_(s.workers),
        iteration_start_(theta_) {}

  std::vector<StudyPoint> run() {
    int k = controller_.start(s_.workers);
    for (int worker = 0; worker < s_.workers; ++worker) begin(worker, 0);
    while (now_ < s_.time) {
      round(k);
      k = controller_.next(inputs()).k;
      ++round_;
    }
    return points_;
  }

 private:
  void begin(int worker, double now) {
    pulled_[worker] = theta_;
    version_of_[worker] = version_;
    const double seconds = clock_.step(worker, steps_[worker]);
    arrivals_.push(now + seconds, {worker, seconds});
  }

  void round(int k) {
    waiting_.clear();
    groups_.clear();
    for (int i = 0; i < k; ++i) {
      now_ = std::max(now_, arrivals_.next_time()) + clock_.service().per_gradient;
      const Arrival a = arrivals_.pop();
      model_.add(a.worker, a.seconds);
      push(a.worker);
      waiting_.push_back(a.worker);
    }
    now_ += clock_.service().per_round;
    ++version_;
    for (const auto& [version, group] : groups_) {
      const double n = static_cast<double>(group.norms2.size());
      noise_.add(group.norms2, std::pow(norm(group.sum) / n, 2));
    }
    for (const int worker : waiting_) begin(worker, now_);
  }

  double rate() const {
    const double iteration = static_cast<double>(pushes_) / s_.workers;
    const double rate = s_.rate * std::min(1.0, (iteration + 1) / (s_.warm_up + 1));
    return s_.drop_at > 0 && now_ > s_.drop_at ? rate / 10 : rate;
  }

  void push(int worker) {
    const double loss =
        problem_.gradient(pulled_[worker], s_.batch, s_.seed, worker, steps_[worker]++, g_);
    loss_now_ = pushes_ == 0 ? loss : 0.99 * loss_now_ + 0.01 * loss;
    if (pushes_ < s_.workers) loss_first_ += loss / s_.workers;
    const auto eta = static_cast<float>(rate()), gamma = static_cast<float>(s_.momentum);
    const float share = 1.0F / static_cast<float>(s_.workers);
    std::vector<float>& v = v_[worker];
    double norm2 = 0;
    for (size_t i = 0; i < g_.size(); ++i) {
      norm2 += double{g_[i]} * g_[i];
      const float old = v[i];
      v[i] = gamma * old + eta * g_[i];
      mean_v_[i] += share * (v[i] - old);
      theta_[i] -= share * (gamma * v[i] + eta * g_[i]);
    }
    Group& group = groups_[version_of_[worker]];
    group.norms2.push_back(norm2);
    group.sum.resize(g_.size());
    for (size_t i = 0; i < g_.size(); ++i) group.sum[i] += g_[i];
    ++pushes_;
    if (pushes_ % s_.workers == 0) end_iteration();
    if (pushes_ % s_.test_every == 0) test();
  }

  static double norm(const std::vector<float>& x) {
    double sum = 0;
    for (const float value : x) sum += double{value} * value;
    return std::sqrt(sum);
  }

  void end_iteration() {
    double sum = 0;
    for (size_t i = 0; i < theta_.size(); ++i) {
      sum += std::pow(double{theta_[i]} - iteration_start_[i], 2);
    }
    step_ = step_ > 0 ? 0.8 * step_ + 0.2 * std::sqrt(sum) : std::sqrt(sum);
    iteration_start_ = theta_;
  }

  void test() {
    const Problem::Score score = problem_.test(theta_);
    const double signal = std::max(noise_.signal(), 1e-30);
    points_.push_back({now_, score.loss, score.accuracy, controller_.k(),
                       noise_.noise() / (s_.workers * signal),
                       (1 + s_.momentum) * norm(mean_v_) / norm(theta_)});
  }

  KInputs inputs() const {
    KInputs in;
    in.live = s_.workers;
    in.round = round_;
    in.arrivals = &model_;
    in.play.service = clock_.service();
    in.noise_known = noise_.known();
    in.noise = noise_.noise();
    in.signal = noise_.signal();
    in.momentum = s_.momentum;
    in.rate = rate();
    in.momentum_norm = norm(mean_v_);
    in.step_norm = step_;
    in.weight_norm = norm(theta_);
    in.loss_first = pushes_ >= s_.workers ? loss_first_ : 0;
    in.loss_now = loss_now_;
    return in;
  }

  // Gradients of one round that were computed for the same weights.
  struct Group {
    std::vector<double> norms2;
    std::vector<float> sum;
  };

  struct Arrival {
    int worker = 0;
    double seconds = 0;
  };

  Problem& problem_;
  const StudySettings s_;
  const StudyClock clock_;
  KController& controller_;
  std::vector<float> theta_;
  std::vector<std::vector<float>> pulled_, v_;
  std::vector<float> mean_v_, g_;
  std::vector<int64_t> version_of_;
  std::vector<uint64_t> steps_;
  std::vector<float> iteration_start_;
  std::vector<int> waiting_;
  std::map<int64_t, Group> groups_;  // by version, of this round
  EventQueue<Arrival> arrivals_;
  ArrivalModel model_;
  GradientNoise noise_;
  std::vector<StudyPoint> points_;
  double now_ = 0, step_ = 0, loss_first_ = 0, loss_now_ = 0;
  int64_t round_ = 0, version_ = 0, pushes_ = 0;
};

}  // namespace kinet
