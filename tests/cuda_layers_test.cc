// ctest: labels=unit,core timeout=300 device
// Every layer of the case table on the CUDA device against the same layer on the host.
//
// Bound: |a - b| <= 1e-4 * max(|b|, rms of that tensor). Bottom gradients hold NaN before backward
// (it must overwrite), parameter gradients a constant (it must add). In the emulation each row runs
// with threads in forward, backward and random order: the bits must be the same in all of them, and
// in every run; and nothing may be reported.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "src/base/check.h"
#include "tests/cuda/device_under_test.h"
#include "tests/cuda/layer_cases_device.h"

namespace kinet {
namespace {

using Floats = std::vector<float>;

constexpr double kTolerance = 1e-4;
constexpr float kBefore = 0.25f;  // in parameter gradients before backward

// Everything that one forward and one backward pass leave behind.
struct Outcome {
  std::vector<Floats> tops, bottom_diffs, blobs, blob_diffs;
};

// Calls use(name, values) for every tensor of an outcome.
template <class Use>
void for_each_tensor(const Outcome& outcome, Use use) {
  const auto part = [&](const char* name, const std::vector<Floats>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) use(fmt::format("{} {}", name, i), tensors[i]);
  };
  part("top", outcome.tops);
  part("gradient of bottom", outcome.bottom_diffs);
  part("blob", outcome.blobs);
  part("gradient of blob", outcome.blob_diffs);
}

std::vector<Floats> tensors_of(const Outcome& outcome) {
  std::vector<Floats> all;
  for_each_tensor(outcome,
                  [&](const std::string&, const Floats& values) { all.push_back(values); });
  return all;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  const std::vector<Floats> others = tensors_of(b);
  size_t next = 0;
  for_each_tensor(a, [&](const std::string& name, const Floats& values) {
    EXPECT_TRUE(same_bits(values, others[next++])) << name;
  });
}

// NaN in both is equal: a gradient that nobody asked for.
std::string difference(const Floats& got, const Floats& expected) {
  Floats a = got, b = expected;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) a[i] = b[i] = 0;
  }
  return compare(a, b, kTolerance);
}

void expect_agree(const Outcome& device, const Outcome& host) {
  const std::vector<Floats> expected = tensors_of(host);
  ASSERT_EQ(tensors_of(device).size(), expected.size());
  size_t next = 0;
  for_each_tensor(device, [&](const std::string& name, const Floats& values) {
    EXPECT_EQ(difference(values, expected[next++]), "") << name;
  });
}

void prepare_backward(OneLayer& layer) {
  const bool in_place = layer.top_count() > 0 && layer.bottom_count() > 0 &&
                        layer.top(0).diff_buffer() == layer.bottom(0).diff_buffer();
  for (int b = in_place ? 1 : 0; b < layer.bottom_count(); ++b) {
    std::fill_n(layer.bottom(b).diff(), layer.bottom(b).count(),
                std::numeric_limits<float>::quiet_NaN());
  }
  for (Tensor& blob : layer.layer().blobs()) {
    if (blob.has_diff()) std::fill_n(blob.diff(), blob.count(), kBefore);
  }
  for (int t = 0; t < layer.top_count(); ++t) layer.randomize(layer.top(t), 50 + t, true);
}

Outcome run(OneLayer& layer, bool backward = true) {
  Outcome out;
  layer.forward();
  for (int t = 0; t < layer.top_count(); ++t) out.tops.push_back(layer.top_values(t));
  for (const Tensor& blob : layer.layer().blobs()) out.blobs.push_back(data_of(blob));
  if (!backward) return out;
  prepare_backward(layer);
  layer.backward();
  for (int b = 0; b < layer.bottom_count(); ++b) out.bottom_diffs.push_back(layer.bottom_diffs(b));
  for (const Tensor& blob : layer.layer().blobs()) {
    if (blob.has_diff()) out.blob_diffs.push_back(diff_of(blob));
  }
  return out;
}

// Rows of the types that have a half here; a type without one fails the first test.
std::vector<LayerCase> cases(bool small_only = false) {
  std::set<std::string> with_half;
  for (const std::string& type : backend_under_test().layer_types()) with_half.insert(type);
  size_t small = 0;
  std::vector<LayerCase> rows = device_cases(&small);
  if (small_only) rows.resize(small);
  std::erase_if(rows, [&](const LayerCase& row) { return !with_half.contains(row.type); });
  return rows;
}

class CudaLayers : public DeviceTest {
 protected:
  OneLayer on_device(const LayerCase& row, bool in_place = false) const {
    return make_case(row, 1, in_place, 1, device_);
  }
};

TEST_F(CudaLayers, EveryComputeLayerHasADeviceHalfAndARow) {
  std::set<std::string> with_row, with_half;
  for (const LayerCase& row : device_cases()) with_row.insert(row.type);
  for (const std::string& type : backend_under_test().layer_types()) with_half.insert(type);
  for (const std::string& type : LayerRegistry::instance().names()) {
    if (LayerRegistry::instance().find(type)->host_ok) continue;
    EXPECT_TRUE(with_half.contains(type)) << "add cuda/*.cu for " << type << ", or set host_ok";
    EXPECT_TRUE(with_row.contains(type)) << "add a row for " << type;
  }
  for (const std::string& type : with_half) {
    EXPECT_NE(LayerRegistry::instance().find(type), nullptr) << type << " is no layer of the host";
  }
}

TEST_F(CudaLayers, AgreeWithTheHostInEveryOrderOfThreads) {
  for (const LayerCase& row : cases()) {
    OneLayer host = make_case(row);
    const Outcome expected = run(host);
    std::vector<Outcome> outcomes;
    for (const std::string& order : thread_orders()) {
      SCOPED_TRACE(row.text() + ", order " + order);
      use_thread_order(order);
      OneLayer device = on_device(row);
      outcomes.push_back(run(device));
      expect_agree(outcomes.back(), expected);
      expect_same_bits(outcomes.back(), outcomes.front());
    }
    ASSERT_EQ(device_reports(), "") << row.text();
  }
}

TEST_F(CudaLayers, InPlaceLayersDoTheSame) {
  int layers = 0;
  for (const LayerCase& row : cases()) {
    OneLayer host = make_case(row);
    if (!host.layer().may_run_in_place() || host.layer().needs().bottom_data) continue;
    SCOPED_TRACE(row.text());
    OneLayer device = on_device(row, true);
    expect_agree(run(device), run(host));
    ++layers;
  }
  EXPECT_GE(layers, 20);
}

// A gradient that nobody asked for is not touched, and the others do not change.
TEST_F(CudaLayers, MasksChooseGradients) {
  for (const LayerCase& row : cases(true)) {
    OneLayer any = make_case(row);
    const size_t bits = any.mask().bottom.size() + any.mask().blob.size();
    for (size_t off = 0; off < bits; ++off) {
      SCOPED_TRACE(fmt::format("{}, gradient {} off", row.text(), off));
      OneLayer host = make_case(row), device = on_device(row);
      for (OneLayer* layer : {&host, &device}) {
        BackwardMask& mask = layer->mask();
        if (off < mask.bottom.size()) {
          mask.bottom[off] = false;
        } else {
          mask.blob[off - mask.bottom.size()] = false;
        }
      }
      expect_agree(run(device), run(host));
    }
  }
}

TEST_F(CudaLayers, TwoRunsGiveTheSameBits) {
  for (const LayerCase& row : cases()) {
    SCOPED_TRACE(row.text());
    OneLayer first = on_device(row), second = on_device(row);
    expect_same_bits(run(first), run(second));
  }
}

// A smaller batch after a larger one, as at the end of a test pass.
TEST_F(CudaLayers, NewShapes) {
  for (const LayerCase& row : cases()) {
    if (row.fixed_batch) continue;
    SCOPED_TRACE(row.text());
    std::vector<Shape> shorter;
    for (const CaseBottom& bottom : row.bottoms) shorter.push_back(bottom.shape);
    OneLayer host = make_case(row, 1, false, 3), device = make_case(row, 1, false, 3, device_);
    for (OneLayer* layer : {&host, &device}) {
      layer->forward();
      layer->reshape(shorter);
    }
    expect_agree(run(device), run(host));
  }
}

// ---- single layers ------------------------------------------------------------------------------

TEST_F(CudaLayers, BatchNormUsesWhatItStored) {
  const LayerCase row{.type = "BatchNorm", .bottoms = {{{5, 6, 3, 4}}}};
  OneLayer host = make_case(row), device = on_device(row);
  for (OneLayer* layer : {&host, &device}) {
    for (int pass = 0; pass < 3; ++pass) {
      layer->randomize(layer->bottom(0), 20 + pass);
      layer->forward();
    }
    layer->context().phase = Phase::kTest;
  }
  expect_agree(run(device), run(host));
}

// The usual E[x^2] - mean^2 in floats would lose every digit of the variance here.
TEST_F(CudaLayers, BatchNormWithALargeMean) {
  const LayerCase row{.type = "BatchNorm", .bottoms = {{{8, 3, 8, 8}}}};
  OneLayer host = make_case(row), device = on_device(row);
  for (OneLayer* layer : {&host, &device}) {
    for (int64_t i = 0; i < layer->bottom(0).count(); ++i) layer->bottom(0).data()[i] += 3000;
  }
  expect_agree(run(device), run(host));
}

TEST_F(CudaLayers, DropoutDrawsTheHostsNumbers) {
  const LayerCase row{.type = "Dropout", .bottoms = {{{3, 701}, Values::kDistinct}}};
  OneLayer host = make_case(row), device = on_device(row);
  for (int64_t pass : {0, 1, 1000003}) {
    SCOPED_TRACE(pass);
    for (OneLayer* layer : {&host, &device}) layer->context().pass = pass;
    const Outcome expected = run(host), got = run(device);
    EXPECT_TRUE(same_bits(got.tops[0], expected.tops[0]));
    EXPECT_TRUE(same_bits(got.bottom_diffs[0], expected.bottom_diffs[0]));
  }
}

TEST_F(CudaLayers, MaximumIsTheFirstOfEquals) {
  const LayerCase row{.type = "Pooling",
                      .body = "pooling_param { kernel_size: 3 stride: 2 }",
                      .bottoms = {{{1, 1, 7, 7}}},
                      .tops = 2};
  OneLayer host = make_case(row), device = on_device(row);
  for (OneLayer* layer : {&host, &device}) layer->set_bottom(0, Floats(49, 1.5f));
  expect_agree(run(device), run(host));
}

TEST_F(CudaLayers, NotANumberStaysVisible) {
  for (const char* type : {"ReLU", "Sigmoid", "TanH", "ELU", "PReLU", "Softmax", "Pooling"}) {
    SCOPED_TRACE(type);
    const std::string body =
        std::string(type) == "Pooling" ? "pooling_param { kernel_size: 2 stride: 2 }" : "";
    const LayerCase row{.type = type, .body = body, .bottoms = {{{1, 2, 4, 4}}}};
    OneLayer device = on_device(row);
    device.bottom(0).data()[5] = std::numeric_limits<float>::quiet_NaN();
    device.forward();
    const Floats y = device.top_values(0);
    EXPECT_TRUE(std::any_of(y.begin(), y.end(), [](float v) { return std::isnan(v); }));
  }
}

TEST_F(CudaLayers, ALabelThatIsNoClassIsAnError) {
  const LayerCase row{.type = "SoftmaxWithLoss", .bottoms = {{{3, 4}}, {{3}, Values::kLabels, 4}}};
  OneLayer device = on_device(row);
  device.set_bottom(1, {0, 7, 1});
  try {
    device.forward();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("item 1 of the batch has label 7"), std::string::npos)
        << error.what();
  }
}

// A hopeless position: its loss is the true value, not what is left of a probability of 0.
TEST_F(CudaLayers, LossOfAHopelessPosition) {
  const LayerCase row{.type = "SoftmaxWithLoss", .bottoms = {{{1, 3}}, {{1}, Values::kLabels, 3}}};
  OneLayer host = make_case(row), device = on_device(row);
  for (OneLayer* layer : {&host, &device}) {
    layer->set_bottom(0, {500, -500, 0});
    layer->set_bottom(1, {1});
  }
  const Outcome got = run(device);
  EXPECT_FLOAT_EQ(got.tops[0][0], 1000);
  expect_agree(got, run(host));
}

}  // namespace
}  // namespace kinet
