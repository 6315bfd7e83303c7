#include "src/solver/test_pass.h"

#include <chrono>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

// Item-weighted sums of the elements of every output. Outputs may change their size from batch to
// batch (one value an item): each element has its own weight.
class Means {
 public:
  void add(const std::vector<OutputValue>& values, double items) {
    if (sums_.size() < values.size()) {
      sums_.insert(sums_.end(), values.begin() + static_cast<int64_t>(sums_.size()), values.end());
      for (size_t i = weights_.size(); i < sums_.size(); ++i) sums_[i].value = 0;
      weights_.resize(sums_.size(), 0);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      sums_[i].value += items * values[i].value;
      weights_[i] += items;
    }
  }

  std::vector<OutputValue> values() const {
    std::vector<OutputValue> out = sums_;
    for (size_t i = 0; i < out.size(); ++i) out[i].value /= weights_[i];
    return out;
  }

 private:
  std::vector<OutputValue> sums_;
  std::vector<double> weights_;
};

// "" when each item was scored once.
std::string coverage_of(const TestPlan& plan, const BatchSource& source, int64_t items,
                        int64_t skipped) {
  const int64_t set = source.items();
  std::string text;
  if (plan.batches && items != set) {
    text = fmt::format("{} batches of {} = {} of {} items", *plan.batches, source.batch_size(),
                       with_commas(items), with_commas(set));
    text += items < set ? fmt::format(", {:.1f} % of the set",
                                      100.0 * static_cast<double>(items) / static_cast<double>(set))
                        : ": some are counted more than once";
  }
  if (skipped > 0) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{} items could not be read and are left out", with_commas(skipped));
  }
  return text;
}

class TestPass {
 public:
  TestPass(Net& net, const TestPlan& plan) : net_(net), plan_(plan) {
    const auto& sources = net.batch_sources();
    source_ = sources.empty() ? nullptr : sources.front();
    counted_layer_ = source_ == nullptr ? 0 : layer_of_source(net, source_);
    KINET_CHECK(source_ != nullptr || plan.batches,
                "test net {} reads no data set, so it has no end\nhint: give test_iter", plan.net);
    for (BatchSource* source : sources) {
      source->seek(0);
      source->stop_at_epoch_end(!plan.batches.has_value());
    }
    skipped_before_ = source_ == nullptr ? 0 : source_->skipped();
  }

  bool done() const {
    return plan_.batches ? batches_ >= *plan_.batches : source_->position() >= source_->items();
  }

  void next(Context context) {
    const int64_t before = source_ == nullptr ? 0 : source_->position();
    context.pass = batches_++;
    const double loss = net_.forward(context);
    const std::vector<Tensor*>& tops = net_.tops(counted_layer_);
    const int64_t items = tops.empty() ? 1 : tops.front()->shape().num();
    means_.add(output_values(net_), static_cast<double>(items));
    loss_ += static_cast<double>(items) * loss;
    items_ += items;
    if (source_ != nullptr && source_->position() == before) {
      fail_runtime("test net {}: the data do not advance past item {}", plan_.net, before);
    }
  }

  TestRecord record() const {
    TestRecord record;
    record.iteration = plan_.iteration;
    record.net = plan_.net;
    record.items = items_;
    if (items_ > 0) {
      record.loss = loss_ / static_cast<double>(items_);
      record.outputs = means_.values();
    }
    if (source_ != nullptr) {
      record.set_items = source_->items();
      record.coverage = coverage_of(plan_, *source_, items_, source_->skipped() - skipped_before_);
    }
    return record;
  }

 private:
  Net& net_;
  const TestPlan& plan_;
  BatchSource* source_ = nullptr;
  int counted_layer_ = 0;  // whose first top tells how many items a batch has
  Means means_;
  double loss_ = 0;
  int64_t items_ = 0, batches_ = 0, skipped_before_ = 0;
};

}  // namespace

std::optional<TestRecord> run_test_pass(Net& net, const TestPlan& plan, Context context,
                                        const SolverControl* control) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  TestPass pass(net, plan);
  while (!pass.done()) {
    if (control != nullptr && (control->stop || control->stop_now)) return std::nullopt;
    pass.next(context);
  }
  TestRecord record = pass.record();
  record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return record;
}

std::vector<OutputValue> output_values(const Net& net) {
  std::vector<OutputValue> values;
  for (const Net::Output& output : net.outputs()) {
    for (int64_t i = 0; i < output.tensor->count(); ++i) {
      values.push_back({output.name, output.tensor->data()[i], output.loss_weight});
    }
  }
  return values;
}

int layer_of_source(Net& net, const BatchSource* source) {
  for (int i = 0; i < net.layer_count(); ++i) {
    if (net.layer(i).batch_source() == source) return i;
  }
  return -1;
}

}  // namespace kinet
