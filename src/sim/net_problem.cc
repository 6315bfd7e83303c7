#include "src/sim/net_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/net/caffemodel.h"
#include "src/net/net.h"
#include "src/solver/global_batch.h"
#include "src/solver/starting_weights.h"
#include "src/solver/test_pass.h"

namespace kinet {
namespace {

constexpr uintptr_t kAlignment = 64;  // bytes: what Buffer::change_to() asks for

// The net with `prefetch: 0` in every layer that has such a field.
ParamNode without_prefetch(const ParamNode& net) {
  ParamNode out = net;
  for (ParamNode& layer : out.children) {
    const ParamNode* type = layer.name == "layer" ? layer.find("type") : nullptr;
    const LayerType* known = type ? LayerRegistry::instance().find(type->text) : nullptr;
    if (known == nullptr) continue;
    for (const Field& field : known->fields) {
      const bool has = field.message != nullptr && field.message->find("prefetch") != nullptr;
      ParamNode* message = has ? layer.find(field.name) : nullptr;
      if (message == nullptr) continue;
      message->erase("prefetch");
      message->add_scalar("prefetch", "0");
    }
  }
  return out;
}

// The first output that an Accuracy layer makes, or one that is called like it, or "".
std::string accuracy_output(const Net& net) {
  for (const LayerSpec& layer : net.spec().layers) {
    if (layer.type != "Accuracy" || layer.tops.empty()) continue;
    for (const Net::Output& output : net.outputs()) {
      if (output.name == layer.tops.front()) return output.name;
    }
  }
  for (const Net::Output& output : net.outputs()) {
    if (output.loss_weight == 0 && output.name.find("acc") != std::string::npos) return output.name;
  }
  return "";
}

bool fits(std::span<const float> memory) {
  return reinterpret_cast<uintptr_t>(memory.data()) % kAlignment == 0;
}

}  // namespace

struct NetProblem::Lane {
  Buffer weights, buffers;  // copies; outlive the nets that look at them
  std::unique_ptr<Net> train;
  std::vector<std::unique_ptr<Net>> tests;  // bound to `train`

  // Neither passes nor tests write weights. Buffers are always copied: they are few.
  void use(std::span<const float> given, std::span<const float> statistics) {
    std::span<float> w{const_cast<float*>(given.data()), given.size()};
    if (!fits(given)) {
      weights.reserve(given.size());
      std::copy(given.begin(), given.end(), weights.data());
      w = {weights.data(), given.size()};
    }
    buffers.reserve(std::max<size_t>(1, statistics.size()));
    std::copy(statistics.begin(), statistics.end(), buffers.data());
    train->use_parameters(w, {buffers.data(), statistics.size()}, nullptr);
  }
};

NetProblem::NetProblem(std::shared_ptr<const SolverConfig> config, const NetProblemOptions& options)
    : config_(std::move(config)),
      seed_(options.seed),
      workers_(options.workers),
      iter_size_(config_->params().get_int("iter_size")) {
  const Params sync = config_->params().message("sync_param");
  divided_ = sync.get_bool("fixed_global_batch") && workers_ > 1;
  train_net_ = without_prefetch(
      divided_ ? with_worker_batch(config_->train_net(), config_->train_state(), workers_)
               : config_->train_net());
  for (int i = 0; i < std::min(1, config_->test_net_count()); ++i) {
    test_nets_.push_back(without_prefetch(config_->test_net(i)));
  }
  for (int i = 0; i < std::max(1, options.lanes); ++i) lanes_.push_back(make_lane());
  Net& net = *lanes_.front()->train;
  bool learns = false;
  for (int i = 0; i < net.layer_count(); ++i) learns |= net.layer_runs_backward(i);
  KINET_CHECK(learns && net.parameter_count() > 0,
              "{}: the train net has nothing to learn: no loss, no parameters, or none between",
              config_->path());
  for (const ParameterInfo& p : net.parameters()) {
    if (!p.is_buffer) segments_.push_back({p.offset, p.count, p.lr_mult, p.decay_mult});
  }
  for (const std::string& file : starting_weights(*config_, options.weights)) {
    copy_weights(Model::read(file), net);
  }
  start_weights_.assign(net.parameter_arena().begin(), net.parameter_arena().end());
  start_buffers_.assign(net.buffer_arena().begin(), net.buffer_arena().end());
  if (!lanes_.front()->tests.empty()) accuracy_ = accuracy_output(*lanes_.front()->tests.front());
}

NetProblem::~NetProblem() = default;

std::unique_ptr<NetProblem::Lane> NetProblem::make_lane() const {
  auto lane = std::make_unique<Lane>();
  NetOptions options;
  options.seed = seed_;
  options.threads = 1;
  options.state = config_->train_state();
  lane->train = std::make_unique<Net>(train_net_, options);
  for (size_t i = 0; i < test_nets_.size(); ++i) {
    options.state = config_->test_state(static_cast<int>(i));
    lane->tests.push_back(std::make_unique<Net>(test_nets_[i], options, lane->train.get()));
  }
  return lane;
}

void NetProblem::start(std::span<float> weights, std::span<float> buffers) const {
  std::copy(start_weights_.begin(), start_weights_.end(), weights.begin());
  std::copy(start_buffers_.begin(), start_buffers_.end(), buffers.begin());
}

int64_t NetProblem::batch_size() const {
  const auto& sources = lanes_.front()->train->batch_sources();
  return sources.empty() ? iter_size_ : sources.front()->batch_size() * iter_size_;
}

int64_t NetProblem::items() const {
  const auto& sources = lanes_.front()->train->batch_sources();
  return sources.empty() ? 0 : sources.front()->items();
}

std::string NetProblem::describe() const {
  const Net& net = *lanes_.front()->train;
  std::string out =
      fmt::format("{}, {} parameters", net.name(), with_commas(net.parameter_count()));
  if (items() > 0) {
    out += fmt::format(", {} items, {} a gradient", with_commas(items()), batch_size());
  }
  return out;
}

Context NetProblem::context(Phase phase, int64_t pass) const {
  Context c;
  c.phase = phase;
  c.threads = 1;
  c.seed = seed_;
  c.pass = pass;
  return c;
}

// As a worker numbers its passes and places its data (Solver::Impl::pass_number, seek_all).
int64_t NetProblem::pass_number(const MiniBatch& batch, int64_t micro) const {
  return (batch.number * iter_size_ + micro) * batch.workers + batch.worker;
}

void NetProblem::seek(Lane& lane, const MiniBatch& batch) const {
  KINET_CHECK(!divided_ || batch.workers == workers_,
              "fixed_global_batch: the batch was divided among {} workers, not {}", workers_,
              batch.workers);
  for (BatchSource* source : lane.train->batch_sources()) {
    source->partition(batch.worker, batch.workers);
    source->seek(batch.number * iter_size_ * batch.workers * source->batch_size());
  }
}

double NetProblem::gradient(int lane_number, std::span<const float> weights,
                            std::span<float> buffers, int worker, int workers, int64_t batch,
                            std::span<float> gradient) {
  Lane& lane = *lanes_.at(lane_number);
  const MiniBatch b{worker, workers, batch};
  lane.use(weights, buffers);
  seek(lane, b);
  lane.train->zero_gradients();
  double sum = 0;
  for (int64_t micro = 0; micro < iter_size_ && std::isfinite(sum); ++micro) {
    const Context c = context(Phase::kTrain, pass_number(b, micro));
    const double one = lane.train->forward(c);
    if (std::isfinite(one)) lane.train->backward(c);
    sum += one;
  }
  const std::span<const float> made = lane.train->gradient_arena();
  const auto scale = 1 / static_cast<float>(iter_size_);
  std::transform(made.begin(), made.end(), gradient.begin(),
                 [scale](float g) { return scale * g; });
  std::copy_n(lane.buffers.data(), buffers.size(), buffers.begin());
  return sum / static_cast<double>(iter_size_);
}

double NetProblem::loss(int lane_number, std::span<const float> weights,
                        std::span<const float> buffers, int worker, int workers, int64_t batch) {
  Lane& lane = *lanes_.at(lane_number);
  const MiniBatch b{worker, workers, batch};
  lane.use(weights, buffers);
  seek(lane, b);
  double sum = 0;
  for (int64_t micro = 0; micro < iter_size_; ++micro) {
    sum += lane.train->forward(context(Phase::kTrain, pass_number(b, micro)));
  }
  return sum / static_cast<double>(iter_size_);
}

ProblemScore NetProblem::test(int lane_number, std::span<const float> weights,
                              std::span<const float> buffers) {
  Lane& lane = *lanes_.at(lane_number);
  KINET_CHECK(!lane.tests.empty(),
              "{}: there is no test net\nhint: a net with layers of phase "
              "TEST, or test_interval: 0",
              config_->path());
  lane.use(weights, buffers);
  TestPlan plan;
  const std::vector<int64_t> batches = config_->params().get_ints("test_iter");
  if (!batches.empty()) plan.batches = batches.front();
  const auto record = run_test_pass(*lane.tests.front(), plan, context(Phase::kTest, 0), {});
  ProblemScore score{record->loss, -1};
  for (const OutputValue& output : record->outputs) {
    if (output.name != accuracy_) continue;
    score.accuracy = output.value;
    break;
  }
  return score;
}

}  // namespace kinet
