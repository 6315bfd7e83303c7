// ctest: labels=unit,core,smoke
// Every layer against values that an independent program (tests/golden/make_reference.py, PyTorch
// in float64) worked out: tops, bottom gradients and parameter gradients.
//
// Bound: |a - b| <= 1e-4 * max(|b|, rms of that tensor). Each case runs with 1 and 3 threads.
// Parameter gradients are filled beforehand (backward must add), bottom gradients are filled with
// NaN (backward must overwrite).
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/layer_test_util.h"

namespace kinet {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-4;
constexpr float kBefore = 0.5f;  // in parameter gradients before backward

// Types of the reference that this version does not have.
const std::set<std::string> kLater = {"AbsVal",    "BNLL",
                                      "Clip",      "ContrastiveLoss",
                                      "Crop",      "Deconvolution",
                                      "Embed",     "Exp",
                                      "HingeLoss", "InfogainLoss",
                                      "LSTM",      "Log",
                                      "MVN",       "MultinomialLogisticLoss",
                                      "Power",     "RNN",
                                      "Reduction", "SPP",
                                      "Swish",     "Threshold",
                                      "Tile"};

const json& reference() {
  static const json root = [] {
    std::ifstream file(KINET_SOURCE_DIR "/tests/golden/reference.json");
    return json::parse(file);
  }();
  return root;
}

Shape shape_of(const json& tensor) { return Shape(tensor["shape"].get<std::vector<int64_t>>()); }

std::vector<double> doubles(const json& tensor) { return tensor["data"]; }

std::vector<float> floats(const json& tensor) {
  const std::vector<double> values = doubles(tensor);
  return {values.begin(), values.end()};
}

std::string type_of(const json& entry) {
  const std::string text = entry["layer"];
  const size_t begin = text.find("type: \"") + 7;
  return text.substr(begin, text.find('"', begin) - begin);
}

const json& find_case(const std::string& name) {
  for (const json& entry : reference()["layers"]) {
    if (entry["name"] == name) return entry;
  }
  throw Error("no golden case " + name);
}

// The blobs of a case; those of batchnorm_global stand beside batchnorm_train.
std::vector<std::vector<float>> blobs_of(const json& entry) {
  std::vector<std::vector<float>> out;
  for (const json& blob : entry["params"]) out.push_back(floats(blob));
  if (entry["name"] == "batchnorm_global") {
    const json& run = find_case("batchnorm_train")["running_after_forwards"][2];
    out = {floats(run["mean_sum"]), floats(run["var_sum"]), {run["scale"].get<float>()}};
  }
  return out;
}

void check_tops(OneLayer& layer, const json& entry) {
  ASSERT_EQ(layer.top_count(), static_cast<int>(entry["tops"].size()));
  for (int t = 0; t < layer.top_count(); ++t) {
    EXPECT_EQ(layer.top(t).shape(), shape_of(entry["tops"][t])) << "top " << t;
    EXPECT_EQ(compare(layer.top_values(t), doubles(entry["tops"][t]), kTolerance), "")
        << "top " << t;
  }
}

void run_backward(OneLayer& layer, const json& entry) {
  const std::vector<int> wanted = entry["grad_bottoms"];
  for (int b = 0; b < layer.bottom_count(); ++b) {
    layer.mask().bottom[b] = std::find(wanted.begin(), wanted.end(), b) != wanted.end();
  }
  for (int t = 0; t < layer.top_count(); ++t) layer.set_top_diff(t, floats(entry["top_diffs"][t]));
  const bool shares = layer.layer().type().top_memory == TopMemory::kSharesDataAndDiff;
  for (int b = 0; b < layer.bottom_count() && !shares; ++b) {
    Tensor& bottom = layer.bottom(b);
    std::fill_n(bottom.diff(), bottom.count(), std::numeric_limits<float>::quiet_NaN());
  }
  for (Tensor& blob : layer.layer().blobs()) {
    if (blob.has_diff()) std::fill_n(blob.diff(), blob.count(), kBefore);
  }
  layer.backward();
}

void check_gradients(OneLayer& layer, const json& entry) {
  const std::vector<int> wanted = entry["grad_bottoms"];
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<double> expected = doubles(entry["bottom_diffs"][i]);
    EXPECT_EQ(compare(layer.bottom_diffs(wanted[i]), expected, kTolerance), "")
        << "gradient of bottom " << wanted[i];
  }
  for (size_t i = 0; i < entry["param_diffs"].size(); ++i) {
    std::vector<float> got = layer.blob_diffs(static_cast<int>(i));
    for (float& v : got) v -= kBefore;
    EXPECT_EQ(compare(got, doubles(entry["param_diffs"][i]), kTolerance), "")
        << "gradient of blob " << i;
  }
}

void run_case(const json& entry, int threads) {
  SCOPED_TRACE(entry["name"].get<std::string>() + ", threads " + std::to_string(threads));
  std::vector<Shape> shapes;
  for (const json& bottom : entry["bottoms"]) shapes.push_back(shape_of(bottom));
  OneLayer layer(entry["layer"], shapes, {.threads = threads});
  for (int b = 0; b < layer.bottom_count(); ++b) layer.set_bottom(b, floats(entry["bottoms"][b]));
  const auto blobs = blobs_of(entry);
  // BatchNorm's running sums are not listed for the training case: they start at zero.
  if (!blobs.empty()) {
    ASSERT_EQ(layer.layer().blobs().size(), blobs.size());
  }
  for (size_t i = 0; i < blobs.size(); ++i) layer.set_blob(static_cast<int>(i), blobs[i]);
  layer.forward();
  check_tops(layer, entry);
  if (!entry.contains("top_diffs")) return;
  run_backward(layer, entry);
  check_gradients(layer, entry);
}

bool registered(const std::string& type) { return LayerRegistry::instance().find(type) != nullptr; }

TEST(LayerGolden, EveryRegisteredTypeOfTheReference) {
  int cases = 0;
  for (const json& entry : reference()["layers"]) {
    if (!registered(type_of(entry))) continue;
    ++cases;
    for (int threads : {1, 3}) run_case(entry, threads);
  }
  EXPECT_EQ(cases, 60);
}

TEST(LayerGolden, TypesNotInThisVersionAreTheKnownOnes) {
  std::set<std::string> missing;
  for (const json& entry : reference()["layers"]) {
    if (!registered(type_of(entry))) missing.insert(type_of(entry));
  }
  for (const std::string& type : missing) std::cout << "not in this version: " << type << "\n";
  EXPECT_EQ(missing, kLater);
}

TEST(LayerGolden, BatchNormRunningSums) {
  const json& entry = find_case("batchnorm_train");
  OneLayer layer(entry["layer"], {shape_of(entry["bottoms"][0])});
  layer.set_bottom(0, floats(entry["bottoms"][0]));
  for (const json& expected : entry["running_after_forwards"]) {
    layer.forward();
    EXPECT_EQ(compare(data_of(layer.blob(0)), doubles(expected["mean_sum"]), kTolerance), "");
    EXPECT_EQ(compare(data_of(layer.blob(1)), doubles(expected["var_sum"]), kTolerance), "");
    EXPECT_NEAR(layer.blob(2).data()[0], expected["scale"].get<double>(), 1e-5);
  }
}

}  // namespace
}  // namespace kinet
