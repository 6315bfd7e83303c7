#include "src/solver/test_pass.h"

#include <chrono>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

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
  TestPass(Net& net, const TestPlan& plan, const TestShare& share)
      : net_(net), plan_(plan), share_(share), batch_(share.index) {
    const auto& sources = net.batch_sources();
    source_ = sources.empty() ? nullptr : sources.front();
    counted_layer_ = source_ == nullptr ? 0 : layer_of_source(net, source_);
    KINET_CHECK(source_ != nullptr || plan.batches,
                "test net {} reads no data set, so it has no end\nhint: give test_iter", plan.net);
    for (BatchSource* source : sources) {
      source->seek(0);
      source->stop_at_epoch_end(!plan.batches.has_value());
      source->partition(share.index, share.count);
    }
    skipped_before_ = source_ == nullptr ? 0 : source_->skipped();
    sums_.outputs.resize(net.outputs().size());
  }

  // Without test_iter a test ends with the first epoch, in which batch b starts at item b * B.
  bool done() const {
    return plan_.batches ? batch_ >= *plan_.batches
                         : batch_ * source_->batch_size() >= source_->items();
  }

  void next(Context context) {
    const int64_t before = source_ == nullptr ? 0 : source_->position();
    context.pass = batch_;
    batch_ += share_.count;
    const double loss = net_.forward(context);
    const std::vector<Tensor*>& tops = net_.tops(counted_layer_);
    const int64_t items = tops.empty() ? 1 : tops.front()->shape().num();
    add_outputs(static_cast<double>(items));
    sums_.loss += static_cast<double>(items) * loss;
    sums_.items += items;
    if (source_ != nullptr && source_->position() == before) {
      fail_runtime("test net {}: the data do not advance past item {}", plan_.net, before);
    }
  }

  TestSums sums() {
    if (source_ != nullptr) sums_.skipped = source_->skipped() - skipped_before_;
    return std::move(sums_);
  }

 private:
  void add_outputs(double items) {
    for (size_t o = 0; o < net_.outputs().size(); ++o) {
      const Tensor& tensor = *net_.outputs()[o].tensor;
      std::vector<TestSums::Element>& elements = sums_.outputs[o];
      const auto count = static_cast<size_t>(tensor.count());
      if (elements.size() < count) elements.resize(count);
      for (size_t i = 0; i < count; ++i) {
        elements[i].sum += items * tensor.data()[i];
        elements[i].weight += items;
      }
    }
  }

  Net& net_;
  const TestPlan& plan_;
  const TestShare share_;
  BatchSource* source_ = nullptr;
  int counted_layer_ = 0;  // whose first top tells how many items a batch has
  TestSums sums_;
  int64_t batch_ = 0, skipped_before_ = 0;
};

}  // namespace

void TestSums::merge(const TestSums& other) {
  items += other.items;
  skipped += other.skipped;
  loss += other.loss;
  if (outputs.size() < other.outputs.size()) outputs.resize(other.outputs.size());
  for (size_t o = 0; o < other.outputs.size(); ++o) {
    const std::vector<Element>& more = other.outputs[o];
    if (outputs[o].size() < more.size()) outputs[o].resize(more.size());
    for (size_t i = 0; i < more.size(); ++i) {
      outputs[o][i].sum += more[i].sum;
      outputs[o][i].weight += more[i].weight;
    }
  }
}

// items, skipped, loss, outputs, then for each output: elements, and sum and weight of each.
void TestSums::pack(std::vector<double>& numbers) const {
  numbers.insert(numbers.end(), {static_cast<double>(items), static_cast<double>(skipped), loss,
                                 static_cast<double>(outputs.size())});
  for (const std::vector<Element>& elements : outputs) {
    numbers.push_back(static_cast<double>(elements.size()));
    for (const Element& e : elements) numbers.insert(numbers.end(), {e.sum, e.weight});
  }
}

TestSums TestSums::unpack(std::span<const double>& numbers) {
  const auto next = [&numbers] {
    KINET_CHECK(!numbers.empty(), "the sums of a test end too early");
    const double value = numbers.front();
    numbers = numbers.subspan(1);
    return value;
  };
  const auto next_count = [&] {
    const double count = next();
    const auto left = static_cast<double>(numbers.size());
    KINET_CHECK(count >= 0 && count <= left, "the sums of a test end too early");
    return static_cast<size_t>(count);
  };
  TestSums sums;
  sums.items = static_cast<int64_t>(next());
  sums.skipped = static_cast<int64_t>(next());
  sums.loss = next();
  sums.outputs.resize(next_count());
  for (std::vector<Element>& elements : sums.outputs) {
    elements.resize(next_count());
    for (Element& e : elements) {
      e.sum = next();
      e.weight = next();
    }
  }
  return sums;
}

std::optional<TestSums> score_share(Net& net, const TestPlan& plan, const TestShare& share,
                                    Context context, const std::function<bool()>& stop) {
  KINET_CHECK(share.index >= 0 && share.index < share.count, "share {} of {} of a test",
              share.index, share.count);
  TestPass pass(net, plan, share);
  while (!pass.done()) {
    if (stop && stop()) return std::nullopt;
    pass.next(context);
  }
  return pass.sums();
}

TestRecord make_test_record(const Net& net, const TestPlan& plan, const TestSums& sums) {
  TestRecord record;
  record.iteration = plan.iteration;
  record.net = plan.net;
  record.items = sums.items;
  if (sums.items > 0) {
    record.loss = sums.loss / static_cast<double>(sums.items);
    for (size_t o = 0; o < sums.outputs.size(); ++o) {
      const Net::Output& output = net.outputs()[o];
      for (const TestSums::Element& e : sums.outputs[o]) {
        record.outputs.push_back({output.name, e.sum / e.weight, output.loss_weight});
      }
    }
  }
  if (!net.batch_sources().empty()) {
    const BatchSource& source = *net.batch_sources().front();
    record.set_items = source.items();
    record.coverage = coverage_of(plan, source, sums.items, sums.skipped);
  }
  return record;
}

std::optional<TestRecord> run_test_pass(Net& net, const TestPlan& plan, Context context,
                                        const std::function<bool()>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const std::optional<TestSums> sums = score_share(net, plan, {}, context, stop);
  if (!sums) return std::nullopt;
  TestRecord record = make_test_record(net, plan, *sums);
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
