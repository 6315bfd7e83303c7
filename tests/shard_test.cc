// The arithmetic of a server against the equations of src/sync/sync.h in double precision.
// ctest: labels=unit,core,smoke timeout=60
#include "src/sync/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "src/base/rng.h"
#include "src/sync/server_rank.h"

namespace kinet {
namespace {

using Vec = std::vector<double>;

constexpr size_t kFloats = 40;
constexpr double kRate = 0.1;

std::vector<float> numbers(uint64_t which, size_t count = kFloats) {
  Rng rng(3, RngPurpose::kTest, which);
  std::vector<float> out(count);
  for (float& v : out) v = static_cast<float>(rng.uniform() - 0.5);
  return out;
}

// One shard that holds all of a net of two parameters, with numbers in double beside it.
class ShardTest : public ::testing::Test {
 protected:
  ShardSetup setup() {
    ShardSetup s;
    s.weights = weights_;
    s.history = history_;
    s.segments = {{0, 24, 1, 1}, {24, 16, 2, 0}};
    s.settings.momentum = 0.9F;
    s.workers = 4;
    return s;
  }
  // What a worker pushes; the memory lives as long as the test.
  Shard::Member gradient(const PlanMember& plan, uint64_t which) {
    slots_.push_back(numbers(which));
    return {plan, slots_.back().data(), std::pow(gradient_norm(slots_.back(), 1), 2)};
  }
  static double lr_mult(size_t i) { return i < 24 ? 1 : 2; }
  static double decay_mult(size_t i) { return i < 24 ? 1 : 0; }

  void expect_near(const Vec& weights, double tolerance = 1e-6) const {
    for (size_t i = 0; i < kFloats; ++i) ASSERT_NEAR(weights_[i], weights[i], tolerance) << i;
  }
  void expect_history_near(const Vec& history, double tolerance = 1e-6) const {
    for (size_t i = 0; i < kFloats; ++i) ASSERT_NEAR(history_[i], history[i], tolerance) << i;
  }

  std::vector<float> weights_ = numbers(1), history_ = std::vector<float>(kFloats, 0.0F);
  std::deque<std::vector<float>> slots_;
};

// A round, both halves, by one server. What it publishes are its weights, whatever was applied.
Shard::Mean round(Shard& shard, const std::vector<Shard::Member>& members, int64_t step = 1,
                  double rate = kRate) {
  const Shard::Mean mean = shard.sum(members, false, false);
  std::vector<float> published(shard.weights().size(), -1.0F);
  shard.apply(members, step, rate, mean.squared, published);
  EXPECT_TRUE(std::ranges::equal(published, shard.weights()));
  return mean;
}

PlanMember plan(int worker, double weight, Use use = Use::kFresh, int lag = 0, double rate = 1) {
  return {worker, 0, weight, lag, rate, use, false};
}

// g = sum w_i m_i g_i, v = m v + eta (g + W mean(m) lambda theta), theta -= v
TEST_F(ShardTest, FreshOnesAreOneUpdateByTheSolversRule) {
  struct Case {
    Vec weight, own_rate;
  };
  for (const Case& c : {Case{{1. / 3, 1. / 3, 1. / 3}, {1, 1, 1}}, Case{{.5, .25, .125}, {1, 1, 1}},
                        Case{{.5, .25, .25}, {2, .5, 1}}, Case{{.1, .1, .1}, {4, 1, 1}}}) {
    weights_ = numbers(1);
    history_.assign(kFloats, 0);
    ShardSetup s = setup();
    s.settings.weight_decay = 0.05F;
    s.iter_size = 2;
    Shard shard(s);
    Vec theta(weights_.begin(), weights_.end()), v(kFloats, 0);
    for (int step = 1; step <= 3; ++step) {
      std::vector<Shard::Member> members;
      Vec g(kFloats, 0);
      double weight = 0, rate = 0;
      for (int w = 0; w < 3; ++w) {
        const auto which = uint64_t{10} * static_cast<uint64_t>(step) + static_cast<uint64_t>(w);
        members.push_back(gradient(plan(w, c.weight[w], Use::kFresh, 0, c.own_rate[w]), which));
        for (size_t i = 0; i < kFloats; ++i) {
          g[i] += c.weight[w] * c.own_rate[w] * double{numbers(which)[i]} / 2;
        }
        weight += c.weight[w];
        rate += c.weight[w] * c.own_rate[w];
      }
      double squared = 0;
      for (const double x : g) squared += std::pow(x / rate, 2);
      EXPECT_NEAR(round(shard, members, step).squared, squared, 1e-5);
      for (size_t i = 0; i < kFloats; ++i) {
        const double decay = weight * (rate / weight) * 0.05 * decay_mult(i) * theta[i];
        v[i] = 0.9 * v[i] + kRate * lr_mult(i) * (g[i] + decay);
        theta[i] -= v[i];
      }
    }
    expect_near(theta);
    expect_history_near(v);
  }
}

// Equal weights give the bits of one optimizer on the plain sum.
TEST_F(ShardTest, EqualFreshOnesAreThePlainOptimizer) {
  for (const char* type : {"SGD", "Nesterov", "Adam"}) {
    weights_ = numbers(1);
    const size_t blocks = std::string(type) == "Adam" ? 2 : 1;
    history_.assign(kFloats * blocks, 0);
    ShardSetup s = setup();
    s.solver_type = type;
    s.settings.weight_decay = 0.01F;
    Shard shard(s);
    round(shard, {gradient(plan(0, 0.25), 5), gradient(plan(1, 0.25), 6),
                  gradient(plan(2, 0.25), 7), gradient(plan(3, 0.25), 8)});
    std::vector<float> weights = numbers(1), sum = numbers(5), history(kFloats * blocks, 0);
    for (const uint64_t which : {6, 7, 8}) {
      for (size_t i = 0; i < kFloats; ++i) sum[i] += numbers(which)[i];
    }
    UpdateStep step;
    step.learning_rate = kRate;
    step.gradient_scale = 0.25F;
    make_optimizer(type, s.settings)->update(s.segments, step, {weights, sum, history});
    EXPECT_EQ(weights_, weights) << type;
    EXPECT_EQ(history_, history) << type;
  }
}

// v_i = m v_i + eta w (m_i g + decay), theta -= m v_i + eta w (m_i g + decay)
TEST_F(ShardTest, OwnMomentaAreNesterovPerWorker) {
  ShardSetup s = setup();
  s.settings.weight_decay = 0.05F;
  Shard shard(s);
  EXPECT_FALSE(shard.has_own_momentum(0));
  Vec theta(weights_.begin(), weights_.end());
  std::vector<Vec> v(2, Vec(kFloats, 0));
  const Vec own_rate{0.5, 3};
  uint64_t which = 20;
  for (const int worker : {0, 1, 1, 0, 1}) {
    ++which;
    round(shard, {gradient(plan(worker, 0.5, Use::kOwnMomentum, 2, own_rate[worker]), which)});
    const std::vector<float> g = numbers(which);
    for (size_t i = 0; i < kFloats; ++i) {
      const double moved = kRate * lr_mult(i) * own_rate[worker] *
                           (0.5 * double{g[i]} + 0.5 * 0.05 * decay_mult(i) * theta[i]);
      v[worker][i] = 0.9 * v[worker][i] + moved;
      theta[i] -= 0.9 * v[worker][i] + moved;
    }
  }
  expect_near(theta);
  expect_history_near(Vec(kFloats, 0));
  for (int w = 0; w < 2; ++w) {
    for (size_t i = 0; i < kFloats; ++i) EXPECT_NEAR(shard.own_momentum(w)[i], v[w][i], 1e-6);
  }
  EXPECT_FALSE(shard.has_own_momentum(2));
}

// Slices larger than the pieces in which weights are updated and published.
TEST_F(ShardTest, PublishesLargeSlices) {
  constexpr size_t kMany = 150'001;
  std::vector<float> weights = numbers(1, kMany), history(kMany, 0.0F);
  ShardSetup s = setup();
  s.weights = weights;
  s.history = history;
  s.segments = {{0, kMany, 1, 1}};
  Shard shard(s);
  slots_.push_back(numbers(2, kMany));
  slots_.push_back(numbers(3, kMany));
  round(shard, {{plan(0, .25, Use::kOwnMomentum), slots_[0].data(), 1},
                {plan(2, .25, Use::kOwnMomentum), slots_[1].data(), 1}});
  const std::vector<float> first = numbers(1, kMany);
  EXPECT_NE(weights.front(), first.front());
  EXPECT_NE(weights.back(), first.back());
}

// A late gradient, re-inserted, leaves weights and momentum where the run is that had it on time.
TEST_F(ShardTest, OrderedMomentumIsTheOnTimeRun) {
  for (const float momentum : {0.0F, 0.9F}) {
    for (int lag = 0; lag <= 6; ++lag) {
      SCOPED_TRACE(fmt::format("momentum {}, lag {}", momentum, lag));
      weights_ = numbers(1);
      history_ = numbers(2);
      std::vector<float> weights = weights_, history = history_;
      ShardSetup late_setup = setup(), time_setup = setup();
      late_setup.settings.momentum = time_setup.settings.momentum = momentum;
      time_setup.weights = weights;
      time_setup.history = history;
      Shard late(late_setup), on_time(time_setup);
      for (int t = 0; t <= 7; ++t) {
        const auto which = uint64_t{100} + static_cast<uint64_t>(t);
        std::vector<Shard::Member> a{gradient(plan(0, 0.4), which)};
        std::vector<Shard::Member> b{gradient(plan(0, 0.4), which)};
        if (t == 1) b.push_back(gradient(plan(1, 0.4), 50));
        if (t == 1 + lag) a.push_back(gradient(plan(1, 0.4, Use::kOrdered, lag), 50));
        round(late, a);
        round(on_time, b);
      }
      for (size_t i = 0; i < kFloats; ++i) {
        ASSERT_NEAR(weights_[i], weights[i], 2e-6) << i;
        ASSERT_NEAR(history_[i], history[i], 1e-6) << i;
      }
    }
  }
}

TEST_F(ShardTest, MomentumOnlyGoesIntoTheMomentum) {
  history_ = numbers(2);
  const std::vector<float> weights = weights_;
  Vec v(history_.begin(), history_.end());
  Shard shard(setup());
  round(shard, {gradient(plan(1, 0.5, Use::kMomentum, 3, 2), 9)});
  EXPECT_EQ(weights_, weights);
  for (size_t i = 0; i < kFloats; ++i) {
    v[i] += std::pow(0.9, 3) * kRate * lr_mult(i) * 0.5 * 2 * double{numbers(9)[i]};
  }
  expect_history_near(v);
}

TEST_F(ShardTest, WithoutMomentumMomentumOnlyIsDrop) {
  std::vector<std::vector<float>> results;
  for (const Use use : {Use::kMomentum, Use::kDrop}) {
    weights_ = numbers(1);
    history_.assign(kFloats, 0);
    ShardSetup s = setup();
    s.settings.momentum = 0;
    Shard shard(s);
    round(shard, {gradient(plan(0, 1), 4), gradient(plan(1, 1, use, 2), 9)});
    results.push_back(weights_);
    results.push_back(history_);
  }
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[3]);
}

TEST_F(ShardTest, DifferencesAreAveragedAsTheyAre) {
  ShardSetup s = setup();
  s.clip = 0.001;
  s.iter_size = 4;
  Shard shard(s);
  Vec theta(weights_.begin(), weights_.end());
  round(shard,
        {gradient(plan(0, 0.5, Use::kDifference), 5), gradient(plan(1, 0.5, Use::kDifference), 6)});
  for (size_t i = 0; i < kFloats; ++i) {
    theta[i] -= 0.5 * (double{numbers(5)[i]} + double{numbers(6)[i]});
  }
  expect_near(theta);
  expect_history_near(Vec(kFloats, 0));
}

// A round that is a part of an update decays by that part.
TEST_F(ShardTest, DecayIsInProportion) {
  ShardSetup s = setup();
  s.settings.momentum = 0;
  s.settings.weight_decay = 0.1F;
  Shard shard(s);
  const double w0 = weights_[0], w30 = weights_[30];
  for (const double weight : {1.0, 0.25}) {
    slots_.emplace_back(kFloats, 0.0F);
    weights_[0] = static_cast<float>(w0);
    round(shard, {{plan(0, weight), slots_.back().data(), 0}});
    EXPECT_NEAR(weights_[0], w0 * (1 - kRate * 0.1 * weight), 1e-7);
    EXPECT_FLOAT_EQ(weights_[30], static_cast<float>(w30));  // decay_mult 0
  }
}

TEST_F(ShardTest, ClipsTheMeanOrEveryGradient) {
  const double norm = gradient_norm(numbers(5), 1);
  ShardSetup s = setup();
  s.settings.momentum = 0;
  s.clip = norm / 2;
  Shard shard(s);
  Vec theta(weights_.begin(), weights_.end());
  for (const Use use : {Use::kFresh, Use::kOwnMomentum, Use::kOrdered}) {
    round(shard, {gradient(plan(0, 1, use), 5)});
    for (size_t i = 0; i < kFloats; ++i) {
      theta[i] -= kRate * lr_mult(i) * 0.5 * double{numbers(5)[i]};
    }
    expect_near(theta);
  }
  s.clip = norm * 1.01;  // not reached
  Shard loose(s);
  round(loose, {gradient(plan(0, 1), 5)});
  for (size_t i = 0; i < kFloats; ++i) theta[i] -= kRate * lr_mult(i) * double{numbers(5)[i]};
  expect_near(theta);
}

// Two slices together are the whole, bit for bit; a parameter may lie in both.
TEST_F(ShardTest, SlicesAddUpToTheWhole) {
  SyncLayout layout{2, 4, kFloats, 0};
  const size_t cut = layout.begin(1);
  ASSERT_GT(cut, 0u);
  ASSERT_LT(cut, 24u);  // in the middle of the first parameter
  std::vector<float> weights = weights_, history = history_;
  const std::vector<ParameterSegment> all = setup().segments;
  std::vector<std::unique_ptr<Shard>> parts;
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, cut}, {cut, kFloats}}) {
    ShardSetup s = setup();
    s.settings.weight_decay = 0.01F;
    s.weights = std::span(weights).subspan(begin, end - begin);
    s.history = std::span(history).subspan(begin, end - begin);
    s.segments = cut_segments(all, begin, end);
    parts.push_back(std::make_unique<Shard>(s));
  }
  ShardSetup s = setup();
  s.settings.weight_decay = 0.01F;
  Shard whole(s);
  const std::vector<PlanMember> plans{plan(0, 0.5), plan(1, 0.25), plan(2, 0.25, Use::kOrdered, 2),
                                      plan(3, 0.25, Use::kOwnMomentum)};
  for (uint64_t step = 1; step <= 3; ++step) {
    std::vector<Shard::Member> members, first, second;
    for (const PlanMember& p : plans) {
      const uint64_t which = 10 * step + static_cast<uint64_t>(p.worker);
      members.push_back(gradient(p, which));
      first.push_back(gradient(p, which));
      second.push_back(gradient(p, which));
      second.back().gradient += cut;
    }
    const double squared = round(whole, members).squared;
    const double sum = round(*parts[0], first).squared + round(*parts[1], second).squared;
    EXPECT_NEAR(sum, squared, 1e-9 + 1e-6 * squared);
  }
  EXPECT_EQ(weights_, weights);
  EXPECT_EQ(history_, history);
}

TEST_F(ShardTest, MeasuresNormsAndProducts) {
  Shard shard(setup());
  const auto squared = [](const std::vector<float>& v) { return std::pow(gradient_norm(v, 1), 2); };
  EXPECT_NEAR(shard.measure().weights, squared(weights_), 1e-5);
  const std::vector<float> before = weights_;
  std::vector<Shard::Member> members{gradient(plan(0, 1), 5)};
  EXPECT_EQ(shard.sum(members, false, true).product, 0);  // there is none before
  shard.apply(members, 1, kRate, 0);
  const Shard::Norms norms = shard.measure();
  std::vector<float> moved(kFloats);
  for (size_t i = 0; i < kFloats; ++i) moved[i] = weights_[i] - before[i];
  EXPECT_NEAR(norms.moved, squared(moved), 1e-6);
  EXPECT_NEAR(norms.momentum, squared(history_), 1e-6);
  members = {gradient(plan(0, 0.5), 6)};
  double product = 0;
  for (size_t i = 0; i < kFloats; ++i) product += double{numbers(5)[i]} * double{numbers(6)[i]};
  EXPECT_NEAR(shard.sum(members, false, true).product, product, 1e-5);
}

// Of gradients that are not summed, the mean of the grouped ones.
TEST_F(ShardTest, MeasuresTheMeanOfAGroup) {
  Shard shard(setup());
  std::vector<Shard::Member> members;
  for (int w = 0; w < 3; ++w) {
    members.push_back(
        gradient(plan(w, 0.25, Use::kOwnMomentum), uint64_t{5} + static_cast<uint64_t>(w)));
    members.back().plan.grouped = w < 2;
  }
  EXPECT_FALSE(shard.sum(members, false, false).known);
  const Shard::Mean mean = shard.sum(members, true, false);
  double squared = 0;
  for (size_t i = 0; i < kFloats; ++i) {
    squared += std::pow((double{numbers(5)[i]} + double{numbers(6)[i]}) / 2, 2);
  }
  EXPECT_TRUE(mean.known);
  EXPECT_NEAR(mean.squared, squared, 1e-5);
}

}  // namespace
}  // namespace kinet
