// kinet time: how long each layer takes, forward and backward.
//
// Every pass times each layer by itself; a row shows the median over the passes (and the least), so
// that one interruption by the system does not spoil it. The totals are sums over a pass and means
// over the passes, so that forward and backward add up. GFLOP/s counts two operations for each
// multiply-add of the forward pass; backward makes a product of that size for the weights and one
// for the input, each only when that gradient is wanted (the first layer's input has none).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/base/check.h"
#include "src/base/median.h"
#include "src/base/text.h"
#include "src/cli/command.h"
#include "src/cli/gpu_flag.h"
#include "src/cli/gpu_math.h"
#include "src/cli/net_summary.h"
#include "src/cli/options.h"
#include "src/cli/shape_flag.h"
#include "src/cli/table.h"
#include "src/cli/whole_passes.h"
#include "src/math/blas.h"
#include "src/net/net.h"

namespace kinet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUp = 3;  // passes: caches, page faults and prefetching threads settle

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double least(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

struct LayerTimes {
  std::vector<double> forward, backward;  // ms, one a pass
};

struct Measurement {
  std::vector<LayerTimes> layers;
  std::vector<double> forward, backward, both, data;  // ms a pass; the first three without data
};

template <class Action>
double time_ms(const Action& action) {
  const Clock::time_point begin = Clock::now();
  action();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class Stopwatch {
 public:
  Stopwatch(Net& net, int threads) : net_(net) {
    context_.phase = net.spec().state.phase;
    context_.threads = threads;
    context_.seed = 1;
  }

  Measurement measure(int iterations) {
    for (int i = 0; i < kWarmUp; ++i) pass(nullptr);
    Measurement out;
    out.layers.resize(net_.layer_count());
    for (int i = 0; i < iterations; ++i) pass(&out);
    return out;
  }

 private:
  bool is_data(int layer) const { return net_.layer(layer).type().is_data; }

  void pass(Measurement* out) {
    double forward = 0, backward = 0, data = 0;
    for (int i = 0; i < net_.layer_count(); ++i) {
      const double ms = time_ms([&] { net_.forward_layer(context_, i); });
      (is_data(i) ? data : forward) += ms;
      if (out != nullptr) out->layers[i].forward.push_back(ms);
    }
    net_.zero_gradients();
    for (int i = net_.layer_count() - 1; i >= 0; --i) {
      if (!net_.layer_runs_backward(i)) continue;
      const double ms = time_ms([&] { net_.backward_layer(context_, i); });
      backward += ms;
      if (out != nullptr) out->layers[i].backward.push_back(ms);
    }
    ++context_.pass;
    if (out == nullptr) return;
    out->forward.push_back(forward);
    out->backward.push_back(backward);
    out->both.push_back(forward + backward);
    out->data.push_back(data);
  }

  Net& net_;
  Context context_;
};

// Images a pass: the batch of the first data layer, else the first dimension of the first top.
int64_t batch_of(const Net& net) {
  for (const BatchSource* source : net.batch_sources()) return source->batch_size();
  return net.layer_count() > 0 && !net.tops(0).empty() ? net.tops(0)[0]->shape().num() : 1;
}

std::string gflops(double operations, double ms) {
  return operations > 0 && ms > 0 ? fmt::format("{:.1f}", operations / ms / 1e6) : "";
}

// Multiply-adds of a layer's backward pass.
double backward_macs(const Net& net, int layer) {
  if (!net.layer_runs_backward(layer)) return 0;
  const BackwardMask& mask = net.backward_mask(layer);
  const auto any = [](const std::vector<bool>& wanted) {
    return std::find(wanted.begin(), wanted.end(), true) != wanted.end() ? 1 : 0;
  };
  return net.layer(layer).macs() * (any(mask.bottom) + any(mask.blob));
}

// What the shares are of: medians add up to less than the mean of a pass that was interrupted.
double sum_of_medians(const Net& net, const Measurement& m) {
  double sum = 0;
  for (int i = 0; i < net.layer_count(); ++i) {
    if (net.layer(i).type().is_data) continue;
    sum += median(m.layers[i].forward) + median(m.layers[i].backward);
  }
  return sum;
}

class Time : public Command {
 public:
  static CommandType describe() {
    return {"time", "time of each layer, forward and backward",
            "kinet time models/lenet/net.prototxt --iterations 20"};
  }

  void configure(CLI::App& app) override {
    app.add_option("NET", net_, "net file (.prototxt)")->required();
    app.add_option("--iterations", iterations_, "passes to time")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--phase", phase_, "TRAIN or TEST")
        ->check(CLI::IsMember({"TRAIN", "TEST"}, CLI::ignore_case))
        ->capture_default_str();
    add_shape_flag(app, shape_, "channels,height,width: noise instead of the data layers' data");
    add_threads_flag(app, threads_);
    add_gpu_flag(app, gpu_);
    add_gpu_math_flag(app, math_);
    app.add_option("--batch", batch_, "images a pass, instead of the file's; needs --shape")
        ->check(CLI::Range(1, 65536));
    app.add_flag("--whole", whole_, "also whole iterations: forward, backward, update");
    app.add_flag("--json", json_, "print JSON instead of a table");
  }

  int run() override {
    require_net_file(net_, "time");
    const int threads = resolve_threads(threads_);
    ParamNode root = load_net_file(net_);
    KINET_CHECK(batch_ == 0 || !shape_.empty(), "time: --batch goes with --shape");
    KINET_CHECK(math_.empty() || !gpu_.empty(), "time: --gpu-math goes with --gpu");
    KINET_CHECK(!whole_ || phase_ != "TEST",
                "time: --whole times iterations of training\nhint: leave out --phase TEST");
    if (!shape_.empty()) root = with_dummy_data(root, shape_, batch_);
    set_gpu_math(root, math_);
    NetOptions options;
    options.state.phase = phase_ == "TEST" ? Phase::kTest : Phase::kTrain;
    options.state = merge_state(root, options.state);
    options.threads = threads;
    options.device = open_gpu(gpu_);
    Net net(root, options);
    const Measurement measured = Stopwatch(net, threads).measure(iterations_);
    if (whole_) passes_ = time_whole_passes(net, iterations_, threads);
    const std::string text =
        json_ ? as_json(net, measured, threads) : as_table(net, measured, threads);
    std::fputs(text.c_str(), stdout);
    return 0;
  }

 private:
  std::string as_table(const Net& net, const Measurement& m, int threads) const {
    const double total = sum_of_medians(net, m), pass = mean(m.both), data_ms = mean(m.data);
    Table table({"layer", "type", "output", ">forward ms", ">min", ">GFLOP/s", ">backward ms",
                 ">min", ">GFLOP/s", ">share"});
    for (int i = 0; i < net.layer_count(); ++i) {
      const Layer& layer = net.layer(i);
      const double forward = median(m.layers[i].forward), backward = median(m.layers[i].backward);
      const bool has_backward = !m.layers[i].backward.empty();
      const bool data = layer.type().is_data;
      const int into = net.fused_into(i);
      const std::string part = into < 0 ? "" : ", part of " + net.layer(into).name();
      table.add({layer.name(), layer.type().type + part,
                 net.tops(i).empty() ? "" : net.tops(i)[0]->shape().str(),
                 fmt::format("{:.3f}", forward), fmt::format("{:.3f}", least(m.layers[i].forward)),
                 gflops(2 * layer.macs(), forward),
                 has_backward ? fmt::format("{:.3f}", backward) : "",
                 has_backward ? fmt::format("{:.3f}", least(m.layers[i].backward)) : "",
                 has_backward ? gflops(2 * backward_macs(net, i), backward) : "",
                 data ? "data" : fmt::format("{:.1f} %", 100 * (forward + backward) / total)});
    }
    std::string out = fmt::format("{}: phase {}, {}, {} passes after {} to warm up\n\n", net.name(),
                                  phase_, place(net, threads), iterations_, kWarmUp);
    out += table.str();
    out += "layers: medians of the passes; below: means, each of a whole pass\n\n";
    out += fmt::format("Average Forward pass: {:.3f} ms.\n", mean(m.forward));
    out += fmt::format("Average Backward pass: {:.3f} ms.\n", mean(m.backward));
    out += fmt::format("Average Forward-Backward: {:.3f} ms.\n", pass);
    out += fmt::format("Data layers: {:.3f} ms a pass, not in the lines above.\n", data_ms);
    out += fmt::format("{} images/s without data, {} with.\n", images(net, pass),
                       images(net, pass + data_ms));
    if (whole_) {
      out += fmt::format(
          "Whole iterations: {3:.3f} ms, {4} images/s. Parts timed by themselves: forward {0:.3f} "
          "ms, backward {1:.3f}, update {2:.3f}.\n",
          passes_.forward_ms, passes_.backward_ms, passes_.update_ms, passes_.iteration_ms,
          images(net, passes_.iteration_ms));
    } else if (net.device() != nullptr) {
      out +=
          "Layers on a GPU wait for their own end here; --whole times passes as training runs "
          "them.\n";
    }
    return out;
  }

  static std::string place(const Net& net, int threads) {
    if (net.device() != nullptr) return net.device()->description();
    return fmt::format("{} threads, {}", threads, blas_description());
  }

  static std::string images(const Net& net, double ms) {
    return ms > 0 ? with_commas(std::llround(1000.0 * static_cast<double>(batch_of(net)) / ms))
                  : "–";
  }

  std::string as_json(const Net& net, const Measurement& m, int threads) const {
    nlohmann::ordered_json out{{"net", net.name()},
                               {"phase", phase_},
                               {"threads", threads},
                               {"blas", blas_description()},
                               {"device", net.device() ? net.device()->description() : "CPU"},
                               {"iterations", iterations_},
                               {"batch", batch_of(net)},
                               {"forward_ms", mean(m.forward)},
                               {"backward_ms", mean(m.backward)},
                               {"forward_backward_ms", mean(m.both)},
                               {"data_ms", mean(m.data)},
                               {"parameters", net.parameter_count()},
                               {"layers", nlohmann::ordered_json::array()}};
    if (whole_) {
      out["whole"] = {{"forward_ms", passes_.forward_ms},
                      {"backward_ms", passes_.backward_ms},
                      {"update_ms", passes_.update_ms},
                      {"iteration_ms", passes_.iteration_ms}};
    }
    for (int i = 0; i < net.layer_count(); ++i) {
      const Layer& layer = net.layer(i);
      const int into = net.fused_into(i);
      out["layers"].push_back({{"name", layer.name()},
                               {"type", layer.type().type},
                               {"part_of", into < 0 ? "" : net.layer(into).name()},
                               {"macs", layer.macs()},
                               {"backward_macs", backward_macs(net, i)},
                               {"forward_ms", median(m.layers[i].forward)},
                               {"forward_min_ms", least(m.layers[i].forward)},
                               {"backward_ms", median(m.layers[i].backward)},
                               {"backward_min_ms", least(m.layers[i].backward)}});
    }
    return out.dump(2) + "\n";
  }

  std::string net_, gpu_, math_;
  std::string phase_ = "TRAIN";
  int iterations_ = 20, threads_ = 0;
  int64_t batch_ = 0;
  std::vector<int64_t> shape_;
  bool json_ = false, whole_ = false;
  WholePasses passes_;
};
KINET_REGISTER_COMMAND(Time);

}  // namespace
}  // namespace kinet
