// The learning-rate search: what the methods find on losses whose best step is known, when they may
// search, that a search disturbs nothing, and the search inside a solver and among workers.
// long because: one search has many laws, and they share their probes and nets
// ctest: labels=unit,core,threads timeout=240
#include "src/sync/lr_search.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>

#include "src/solver/lr_probe.h"
#include "src/solver/metrics.h"
#include "src/solver/report.h"
#include "tests/bsp_workers.h"

namespace kinet {
namespace {

// phi(r) = f(w - r d), given;
class LineProbe : public LrProbe {
 public:
  LineProbe(std::function<double(double)> phi, double slope)
      : phi_(std::move(phi)), slope_(slope) {}
  double loss() const override { return phi_(0); }
  double slope() const override { return slope_; }
  double loss_at(double rate) override {
    ++passes_;
    tried.push_back(rate);
    return phi_(rate);
  }
  double alignment() const override { return aligned; }
  int64_t passes() const override { return passes_; }

  std::vector<double> tried;
  double aligned = 0;

 private:
  std::function<double(double)> phi_;
  double slope_;
  int64_t passes_ = 0;
};

// A quadratic of curvature h along the gradient: lowest at r = 1 / h, as high as before at 2 / h.
LineProbe quadratic(double h) {
  constexpr double kSlope = 5;
  return {[=](double r) { return 3 - kSlope * r + 0.5 * h * kSlope * r * r; }, kSlope};
}

LrSearchOptions options_for(const std::string& method, double base_lr, double momentum = 0) {
  LrSearchOptions o;
  o.method = method;
  o.base_lr = base_lr;
  o.momentum = momentum;
  o.warmup = 1;
  return o;
}

TEST(LrSearchMethods, FindTheStepOfAQuadratic) {
  for (const std::string method : {"armijo", "barzilai_borwein"}) {
    for (const double momentum : {0.0, 0.9}) {
      for (const double base_lr : {0.003, 0.02, 0.1, 0.5, 2.5}) {
        SCOPED_TRACE(fmt::format("{} mu {} base_lr {}", method, momentum, base_lr));
        const double best = 0.1;  // the rate whose whole step r is 2 (1 - c) / h
        LrSearchOptions options = options_for(method, base_lr, momentum);
        const double h = 2 * (1 - options.sufficient) / (best * LrSearch(options).reach());
        LrSearch search(options);
        LineProbe probe = quadratic(h);
        search.search(probe);
        const double found = base_lr * search.multiplier();
        EXPECT_LE(found, best * 1.001);
        EXPECT_GE(found, best / 1.5);
      }
    }
  }
}

TEST(LrSearchMethods, AStepIsAsLongAsMomentumMakesIt) {
  LrSearchOptions options = options_for("armijo", 1, 0.5);
  options.horizon = 3;
  EXPECT_DOUBLE_EQ(LrSearch(options).reach(), 1 + 0.5 + 0.25);
  options.momentum = 0;
  EXPECT_DOUBLE_EQ(LrSearch(options).reach(), 1);
}

TEST(LrSearchMethods, StayWithinTheBounds) {
  for (const std::string method : {"armijo", "barzilai_borwein", "hypergradient"}) {
    for (const double h : {1e-9, 1e9}) {
      LrSearchOptions options = options_for(method, 1);
      options.bounds = 16;
      LrSearch search(options);
      for (int i = 0; i < 400; ++i) {
        LineProbe probe = quadratic(h);
        probe.aligned = h < 1 ? 1 : -1;
        search.search(probe);
        ASSERT_LE(search.multiplier(), 16.0001) << method;
        ASSERT_GE(search.multiplier(), 0.9999 / 16) << method;
      }
      EXPECT_NEAR(std::log(search.multiplier()), std::log(16) * (h < 1 ? 1 : -1), 0.01) << method;
    }
  }
}

// Beyond r = 0.5 the loss is not a number, infinite, or absurdly high: wherever the search begins.
TEST(LrSearchMethods, ARateThatGivesNaNIsNeverChosen) {
  for (const double wall : {double{NAN}, double{INFINITY}, 1e10}) {
    for (const std::string method : {"armijo", "barzilai_borwein"}) {
      for (const double base_lr : {0.01, 0.4, 0.6, 25.0}) {
        LrSearch search(options_for(method, base_lr));
        for (int i = 0; i < 5; ++i) {
          LineProbe probe([=](double r) { return r > 0.5 ? wall : 3 - r; }, 1);
          search.search(probe);
          EXPECT_LE(base_lr * search.multiplier(), 0.5) << method << " from " << base_lr;
        }
      }
    }
  }
}

// Every step makes it worse: the rate goes down, to none of those that were tried.
TEST(LrSearchMethods, WhenNothingHelpsTheRateIsBelowAllTried) {
  for (const std::string method : {"armijo", "barzilai_borwein"}) {
    LrSearch search(options_for(method, 1));
    LineProbe probe([](double r) { return 1 + r; }, 1);
    search.search(probe);
    ASSERT_FALSE(probe.tried.empty());
    for (const double r : probe.tried) EXPECT_LE(search.multiplier(), r) << method;
  }
}

TEST(LrSearchMethods, AFlatOrBrokenGradientChangesNothing) {
  for (const std::string method : {"armijo", "barzilai_borwein"}) {
    for (const double slope : {0.0, double{NAN}}) {
      LrSearch search(options_for(method, 0.1));
      LineProbe probe([](double) { return 1.0; }, slope);
      search.search(probe);
      EXPECT_EQ(search.multiplier(), 1) << method;
    }
  }
}

TEST(LrSearchMethods, HypergradientFollowsTheAgreement) {
  LrSearch search(options_for("hypergradient", 0.1));
  LineProbe probe = quadratic(1);
  probe.aligned = 0.5;
  search.search(probe);
  EXPECT_NEAR(search.multiplier(), std::exp(0.01), 1e-12);
  probe.aligned = -1;
  search.search(probe);
  EXPECT_NEAR(search.multiplier(), std::exp(0.01 - 0.02), 1e-12);
}

TEST(LrSearch, TheFirstStepsUseARisingPart) {
  LrSearchOptions options = options_for("barzilai_borwein", 1);
  options.warmup = 4;
  LrSearch search(options);
  LineProbe probe = quadratic(0.9);  // 2
  search.search(probe);
  for (const double part : {0.25, 0.5, 0.75, 1.0, 1.0}) {
    search.advance();
    EXPECT_NEAR(search.multiplier(), 2 * part, 1e-6);
  }
}

// The n-th search weighs 1 / n, but not less than `smoothing`.
TEST(LrSearch, SearchesAreAveragedInTheLogarithm) {
  LrSearchOptions options = options_for("barzilai_borwein", 1);
  options.smoothing = 0.25;
  LrSearch search(options);
  const auto find = [&](double rate) {
    LineProbe probe = quadratic(2 * (1 - options.sufficient) / rate);
    search.search(probe);
    return std::log2(search.multiplier());
  };
  EXPECT_NEAR(find(2), 1, 1e-6);
  EXPECT_NEAR(find(8), 2, 1e-6);
  EXPECT_NEAR(find(4), 2, 1e-6);
  EXPECT_NEAR(find(16), 2.5, 1e-6);
  EXPECT_NEAR(find(32), 0.75 * 2.5 + 0.25 * 5, 1e-6);
}

TEST(LrSearch, LaterItRisesNoHigherThanItWas) {
  LrSearchOptions options = options_for("barzilai_borwein", 1);
  options.rise_until = 2;
  LrSearch search(options);
  const auto find = [&](double rate) {
    LineProbe probe = quadratic(2 * (1 - options.sufficient) / rate);
    search.search(probe);
    search.advance();
    return std::log2(search.multiplier());
  };
  EXPECT_NEAR(find(2), 1, 1e-6);
  EXPECT_NEAR(find(8), 2, 1e-6);  // the last before
  EXPECT_NEAR(find(32), 2, 1e-6);
  EXPECT_NEAR(find(1), 2 * 0.75, 1e-6);
  EXPECT_NEAR(find(4), 1.5 * 0.8 + 2 * 0.2, 1e-6);
  EXPECT_NEAR(find(1024), 2, 1e-6);
}

// A clock that is told what everything takes: a step three units, a pass of a search one and a
// half.
TEST(LrSearch, ItsShareOfTheTimeIsHeld) {
  for (const std::string method : {"armijo", "barzilai_borwein"}) {
    for (const int64_t every : {1, 10, 50, 500}) {
      for (const double budget : {0.02, 0.1}) {
        LrSearchOptions options = options_for(method, 0.1);
        options.every = every;
        options.budget = budget;
        LrSearch search(options);
        double clock = 0, searching = 0;
        int64_t last = 0, longest = 0;
        for (int64_t step = 0; step < 5000; ++step) {
          if (search.due()) {
            longest = std::max(longest, step - last);
            last = step;
            LineProbe probe = quadratic(step % 7 + 1.0);
            search.search(probe);
            searching += 1.5 * static_cast<double>(probe.passes());
            clock += 1.5 * static_cast<double>(probe.passes());
          }
          clock += 3;
          search.advance();
          // The budget of 200 steps is there from the start.
          ASSERT_LE(searching, budget * (clock + 3.0 * 200) + 60) << step;
        }
        SCOPED_TRACE(fmt::format("{} every {} budget {}", method, every, budget));
        EXPECT_LE(searching / clock, budget * 1.1);
        EXPECT_GE(search.state().searches, 4);
        EXPECT_EQ(search.state().step, 5000);
        EXPECT_LE(longest, 2000);
      }
    }
  }
}

TEST(LrSearch, IntervalsGrow) {
  LrSearchOptions options = options_for("armijo", 0.1);
  options.every = 100;
  options.growth = 2;
  LrSearch search(options);
  std::vector<int64_t> at;
  for (int64_t step = 0; step < 500; ++step) {
    if (search.due()) {
      at.push_back(step);
      LineProbe probe = quadratic(1);
      search.search(probe);
    }
    search.advance();
  }
  EXPECT_EQ((std::vector<int64_t>{0, 1, 3, 7}), (std::vector<int64_t>{at.begin(), at.begin() + 4}));
  EXPECT_EQ(at.back() - at[at.size() - 2], 100);
}

// --- inside a solver

const std::string kSearch = " lr_search_param { method: 'armijo' every: 4 growth: 1.5 } ";
const std::string kRates = "base_lr: 0.1 momentum: 0.9 weight_decay: 0.001 random_seed: 5 ";
const std::string kHard = "layer { name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: 'ip1' }\n" +
                          kRelu +
                          "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' }\n";

using LrSearchSolver = BspWorkersTest;

// The loss at rate 0 is the loss itself: the same images, the same masks. Afterwards nothing is
// seen of the trials.
TEST_F(LrSearchSolver, AProbeDisturbsNothing) {
  const std::string in_place = "layer { name: 'p' type: 'TanH' bottom: 'data' top: 'data' }\n";
  const std::string data = data_layer(folder_, "train", 4, "TRAIN");
  for (const std::string& net : {data + classifier(kHard), data + in_place + classifier(kHard)}) {
    TestRun run(solver_text(net, kRates + "max_iter: 9" + kNoSnapshot), options_);
    for (int i = 0; i < 3; ++i) run.solver->step();
    Net& train = run.solver->train_net();
    Context context;
    context.seed = 5;
    context.pass = 3;
    const std::vector<int64_t> positions{train.batch_sources()[0]->position()};
    const std::vector<float> statistics(train.buffer_arena().begin(), train.buffer_arena().end());
    train.zero_gradients();
    const double loss = train.forward(context);
    train.backward(context);
    const auto everything = [&] {
      std::vector<float> out = state_of(*run.solver);
      out.insert(out.end(), train.gradient_arena().begin(), train.gradient_arena().end());
      const Tensor& top = *train.outputs()[0].tensor;
      out.insert(out.end(), top.data(), top.data() + top.count());
      return out;
    };
    const std::vector<float> before = everything();
    const int64_t position = train.batch_sources()[0]->position();
    std::vector<ParameterSegment> segments;
    for (const ParameterInfo& p : train.parameters()) {
      if (!p.is_buffer) segments.push_back({p.offset, p.count, p.lr_mult, p.decay_mult});
    }
    {
      NetProbe probe(train, segments, run.solver->history(), {loss, {context}, positions, 1});
      EXPECT_EQ(probe.loss_at(0), loss);
      EXPECT_LT(probe.loss_at(1e-3), loss);
      EXPECT_NE(probe.loss_at(3), loss);
      EXPECT_EQ(probe.loss_at(0), loss);
      EXPECT_EQ(probe.passes(), 4);
    }
    EXPECT_TRUE(everything() == before);
    EXPECT_EQ(train.batch_sources()[0]->position(), position);
  }
}

// The slope is what the update moves along: lr_mult counts, and micro-batches are averaged.
TEST_F(LrSearchSolver, TheSlopePredictsTheLoss) {
  const std::string fill = " weight_filler { type: 'xavier' } } }\n";
  const std::string net =
      data_layer(folder_, "train", 4, "TRAIN") +
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' param "
      "{ lr_mult: 3 } param { lr_mult: 0 } inner_product_param { num_output: 3" +
      fill +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: "
      "'label' top: 'loss' }\n";
  TestRun run(solver_text(net, kRates + "max_iter: 9" + kNoSnapshot), options_);
  Net& train = run.solver->train_net();
  std::vector<Context> contexts(2);
  train.zero_gradients();
  double loss = 0;
  for (const Context& c : contexts) {
    loss += train.forward(c) / 2;
    train.backward(c);
  }
  std::vector<ParameterSegment> segments;
  for (const ParameterInfo& p : train.parameters()) {
    segments.push_back({p.offset, p.count, p.lr_mult, p.decay_mult});
  }
  NetProbe probe(train, segments, run.solver->history(), {loss, contexts, {0}, 0.5F});
  constexpr double kRate = 1e-3;
  EXPECT_NEAR((loss - probe.loss_at(kRate)) / kRate, probe.slope(), 0.02 * probe.slope());
}

TEST_F(LrSearchSolver, TheResumeLawHolds) {
  for (const int iter_size : {1, 3}) {
    const std::string text = solver_text(
        net(kHard), kRates + kSearch +
                        fmt::format("max_iter: 20 snapshot_prefix: 'r' iter_size: {}", iter_size));
    TestRun whole(text, options_);
    whole.run();
    for (const int at : {1, 7, 13}) {
      TestRun first(text, options_);
      first.seen.after_iteration = [&](int64_t i) { first.control.stop = i == at; };
      SolverOptions options = options_;
      options.resume = first.run().last_snapshot;
      TestRun second(text, options);
      second.run();
      EXPECT_TRUE(state_of(*whole.solver) == state_of(*second.solver)) << at;
      EXPECT_EQ(whole.solver->rate_multiplier(), second.solver->rate_multiplier());
    }
    EXPECT_NE(whole.solver->rate_multiplier(), 1);
  }
}

TEST_F(LrSearchSolver, AResumeSaysWhatItCannotGoOnWith) {
  const std::string with =
      solver_text(net(), kRates + kSearch + "max_iter: 6 snapshot_prefix: 'w'");
  const std::string without = solver_text(net(), kRates + "max_iter: 6 snapshot_prefix: 'o'");
  TestRun a(with, options_), b(without, options_);
  SolverOptions options = options_;
  options.resume = a.run().last_snapshot;
  EXPECT_TRUE(TestRun(without, options).seen.has_note("learning-rate search is not gone on with"));
  options.resume = b.run().last_snapshot;
  EXPECT_TRUE(TestRun(with, options).seen.has_note("one begins now"));
}

// Sixty times too much: without a search the run ends at once, with one it learns.
TEST_F(LrSearchSolver, ARateFarTooHighIsSurvived) {
  const std::string rates = "base_lr: 60 momentum: 0.9 random_seed: 5 max_iter: 100 display: 10 ";
  TestRun with(solver_text(net(), rates + "lr_search_param { method: 'armijo' }" + kNoSnapshot),
               options_);
  with.run();
  EXPECT_LT(with.solver->loss(), 0.5);
  EXPECT_LT(with.solver->rate_multiplier(), 0.1);
  ASSERT_FALSE(with.seen.displays.empty());
  EXPECT_NEAR(with.seen.displays.back().learning_rate, 60 * with.solver->rate_multiplier(), 1e-9);
  EXPECT_TRUE(with.seen.has_note("of the time of the iterations; rate multiplier"));
}

TEST_F(LrSearchSolver, MetricsAndReportTellOfIt) {
  const std::string path = folder_ / "metrics.jsonl";
  {
    MetricsWriter writer(path);
    writer.on_start({});
    DisplayRecord plain, searched;
    searched.rate_multiplier = 2.5;
    searched.search_share = 0.031;
    writer.on_display(plain);
    EXPECT_EQ(render_report(read_metrics(path), {}).find("rate multiplier"), std::string::npos);
    writer.on_display(searched);
  }
  const RunHistory history = read_metrics(path);
  EXPECT_EQ(history.displays[1].rate_multiplier, 2.5);
  EXPECT_CONTAINS(render_report(history, {}), "rate multiplier; its search took 3.1 % of the time");
}

TEST_F(LrSearchSolver, AdaptiveOptimizersAreRefused) {
  const auto error = [&](const std::string& fields) {
    return message_of([&] {
      SolverConfig::parse(solver_text(net(), fields + " max_iter: 5"), "solver.prototxt");
    });
  };
  for (const char* type : {"Adam", "AdamW", "AdaGrad", "RMSProp", "AdaDelta"}) {
    const std::string text = error(
        fmt::format("type: '{}'\nbase_lr: 0.1\nlr_search_param {{ method: 'armijo' }}", type));
    EXPECT_CONTAINS(text, "solver.prototxt:");
    EXPECT_CONTAINS(text, std::string("lr_search_param: ") + type + " scales each weight's step");
  }
  EXPECT_CONTAINS(error("base_lr: 0.1 lr_search_param { bounds: 0.5 }"),
                  "bounds must be more than");
  EXPECT_CONTAINS(error("base_lr: 0.1 lr_search_param { method: 'armjo' }"), "armijo");
  EXPECT_CONTAINS(error("base_lr: 0 lr_search_param { method: 'armijo' }"), "base_lr above 0");
}

// --- several workers

TEST_F(LrSearchSolver, WorkersHaveTheirOwnRatesAndTheSameWeights) {
  const auto w = train(solver_text(net(kHard), kRates + kSearch + "max_iter: 30" + kNoSnapshot), 3);
  for (const BspWorker& worker : w) {
    ASSERT_EQ(worker.error, "");
    EXPECT_TRUE(state_of(*worker.run->solver) == state_of(*w[0].run->solver));
  }
  EXPECT_NE(w[0].run->solver->rate_multiplier(), w[1].run->solver->rate_multiplier());
  EXPECT_NE(w[1].run->solver->rate_multiplier(), w[2].run->solver->rate_multiplier());
}

TEST_F(LrSearchSolver, WorkersResumeBitForBitWithTheirOwnRates) {
  const std::string fields = kRates + kSearch + "max_iter: 30 ";
  const auto whole = train(solver_text(net(kRelu, 3), fields + "snapshot: 13"), 2);
  options_.resume = folder_ / "solver_iter_13.solverstate";
  const auto rest = train(solver_text(net(kRelu, 3), fields + kNoSnapshot), 2);
  for (const int r : {0, 1}) {
    ASSERT_EQ(rest[r].error, "");
    EXPECT_TRUE(state_of(*whole[r].run->solver) == state_of(*rest[r].run->solver));
    EXPECT_EQ(whole[r].run->solver->rate_multiplier(), rest[r].run->solver->rate_multiplier());
  }
  const auto more = train(solver_text(net(kRelu, 3), fields + kNoSnapshot), 3);
  EXPECT_EQ(more[2].error, "");
  EXPECT_TRUE(more[0].run->seen.has_note("learning rates of 2 workers; 3 train now"));
}

// Where the time of a gradient is given, a search adds a third of it for each pass: beside a clock
// that hardly moves that is all there is, and more than the clock has seen.
TEST_F(LrSearchSolver, ItsTimeCountsWhereTimeIsGiven) {
  std::atomic<int64_t> looks{0};
  options_.now = [&looks] { return 1e-9 * static_cast<double>(++looks); };
  options_.step_seconds = [] { return 1e-4; };
  const std::string fields = kRates + kSearch + "max_iter: 20 display: 19" + kNoSnapshot;
  const auto w = train(solver_text(net(), fields), 2);
  ASSERT_EQ(w[0].error, "");
  ASSERT_GE(w[0].run->seen.displays.size(), 2U);
  EXPECT_GT(w[0].run->seen.displays[1].search_share, 1);
}

// Where all multipliers are forced to the same value, the update is that of the plain run at the
// rate that comes of it.
TEST_F(LrSearchSolver, EqualMultipliersAreAnotherRate) {
  const std::string rest =
      " momentum: 0.9 weight_decay: 0.01 clip_gradients: 0.05 random_seed: 5 max_iter: 10 ";
  // Losses fall so slowly at these rates that every search stops at its upper bound.
  const auto search =
      train(solver_text(
                net(), "base_lr: 1e-6" + rest +
                           "lr_search_param { method: 'armijo' bounds: 4 smoothing: 1 warmup: 1 }" +
                           kNoSnapshot),
            2);
  const auto plain = train(solver_text(net(), "base_lr: 4e-6" + rest + kNoSnapshot), 2);
  ASSERT_EQ(search[0].error, "");
  EXPECT_NEAR(search[0].run->solver->rate_multiplier(), 4, 1e-6);
  EXPECT_LE(distance(state_of(*search[0].run->solver), state_of(*plain[0].run->solver)), 1e-6);
}

}  // namespace
}  // namespace kinet
