#include "src/cli/whole_passes.h"

#include <chrono>
#include <functional>
#include <vector>

#include "src/base/median.h"
#include "src/optim/optimizer.h"

namespace kinet {
namespace {

constexpr int kWarmUpIterations = 3;  // iterations

// The update of the solver's main loop, without a schedule.
class Update {
 public:
  explicit Update(Net& net, int threads) : net_(net) {
    settings_.momentum = 0.9F;
    settings_.weight_decay = 5e-4F;
    step_.threads = threads;
    for (const ParameterInfo& p : net.parameters()) {
      if (!p.is_buffer) segments_.push_back({p.offset, p.count, p.lr_mult, p.decay_mult});
    }
    if (net.device() != nullptr) {
      on_device_ = net.device()->make_optimizer("SGD", settings_, segments_);
      history_on_device_ = net.device()->allocate(net.parameter_floats());
    } else {
      on_host_ = make_optimizer("SGD", settings_);
      history_.resize(net.parameter_floats());
    }
  }
  ~Update() {
    if (history_on_device_ != nullptr) net_.device()->release(history_on_device_);
  }
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;

  void run() {
    ++step_.step;
    if (on_device_ == nullptr) {
      on_host_->update(segments_, step_, {net_.parameter_arena(), net_.gradient_arena(), history_});
    } else {
      on_device_->update(step_, {net_.parameters_on_device(), net_.gradients_on_device(),
                                 history_on_device_, net_.parameter_floats()});
    }
  }

 private:
  Net& net_;
  OptimizerSettings settings_;
  UpdateStep step_;
  std::vector<ParameterSegment> segments_;
  std::unique_ptr<Optimizer> on_host_;
  std::unique_ptr<DeviceOptimizer> on_device_;
  std::vector<float> history_;
  float* history_on_device_ = nullptr;
};

class Iterations {
 public:
  Iterations(Net& net, int threads) : net_(net), update_(net, threads) {
    context_.phase = net.spec().state.phase;
    context_.threads = threads;
    context_.seed = 1;
  }

  WholePasses measure(int iterations) {
    for (int i = 0; i < kWarmUpIterations; ++i) run();
    std::vector<double> forward, backward, update;
    for (int i = 0; i < iterations; ++i) {
      ++context_.pass;
      net_.zero_gradients();
      wait();
      forward.push_back(time([&] { net_.forward(context_); }));
      backward.push_back(time([&] { net_.backward(context_); }));
      update.push_back(time([&] { update_.run(); }));
    }
    const double all = time([&] {
      for (int i = 0; i < iterations; ++i) run();
    });
    return {median(forward), median(backward), median(update), all / iterations};
  }

 private:
  void run() {
    ++context_.pass;
    net_.zero_gradients();
    net_.forward(context_);
    net_.backward(context_);
    update_.run();
  }
  void wait() {
    if (net_.device() != nullptr) net_.device()->synchronize();
  }
  double time(const std::function<void()>& action) {
    const auto begin = std::chrono::steady_clock::now();
    action();
    wait();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  Net& net_;
  Context context_;
  Update update_;
};

}  // namespace

WholePasses time_whole_passes(Net& net, int iterations, int threads) {
  return Iterations(net, threads).measure(iterations);
}

}  // namespace kinet
