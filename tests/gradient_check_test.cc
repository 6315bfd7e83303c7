// Every row of the case table: analytic gradients against central differences.
//
// Objective: for a loss layer 3 times the loss; else, for each single top value y in turn, 2 y.
// Bound: |analytic - numeric| <= threshold * max(|analytic|, |numeric|, 1). Before each backward,
// bottom gradients hold NaN (backward must overwrite) and parameter gradients a constant (backward
// must add).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/layer_cases.h"

namespace kinet {
namespace {

constexpr float kBefore = 0.25f;  // in parameter gradients before backward

// A tensor whose gradient is checked.
struct Leaf {
  Tensor* tensor;
  std::string name;
};

class Checker {
 public:
  explicit Checker(const LayerCase& row) : row_(row), layer_(make_case(row)) {
    for (int b = 0; b < layer_.bottom_count(); ++b) {
      if (layer_.mask().bottom[b])
        leaves_.push_back({&layer_.bottom(b), "bottom " + std::to_string(b)});
    }
    for (size_t i = 0; i < layer_.layer().blobs().size(); ++i) {
      if (layer_.mask().blob[i]) leaves_.push_back({&layer_.blob(i), "blob " + std::to_string(i)});
    }
    factor_ = layer_.layer().type().is_loss ? 3 : 2;
    tops_ = layer_.layer().type().is_loss ? 1 : layer_.top_count();
  }

  void run() {
    ASSERT_FALSE(leaves_.empty());
    numeric();
    for (int t = 0; t < tops_; ++t) {
      for (int64_t i = 0; i < layer_.top(t).count(); ++i, ++column_) {
        analytic(t, i);
        compare_column();
      }
    }
    EXPECT_LE(worst_, row_.threshold) << worst_at_;
  }

 private:
  // All top values, one after the other: the rows of the numeric Jacobian.
  std::vector<double> objective() {
    layer_.forward();
    std::vector<double> out;
    for (int t = 0; t < tops_; ++t) {
      for (float v : layer_.top_values(t)) out.push_back(factor_ * static_cast<double>(v));
    }
    return out;
  }

  void numeric() {
    for (const Leaf& leaf : leaves_) {
      for (int64_t i = 0; i < leaf.tensor->count(); ++i) {
        float& x = leaf.tensor->data()[i];
        const float before = x;
        x = static_cast<float>(before + row_.step);
        const double high = x;
        std::vector<double> slope = objective();
        x = static_cast<float>(before - row_.step);
        const double width = high - x;
        const std::vector<double> low = objective();
        x = before;
        for (size_t k = 0; k < slope.size(); ++k) slope[k] = (slope[k] - low[k]) / width;
        jacobian_.push_back(std::move(slope));
      }
    }
  }

  void analytic(int top, int64_t index) {
    layer_.forward();
    for (int b = 0; b < layer_.bottom_count(); ++b) {
      Tensor& bottom = layer_.bottom(b);
      std::fill_n(bottom.diff(), bottom.count(), std::numeric_limits<float>::quiet_NaN());
    }
    for (Tensor& blob : layer_.layer().blobs()) {
      if (blob.has_diff()) std::fill_n(blob.diff(), blob.count(), kBefore);
    }
    for (int t = 0; t < layer_.top_count(); ++t) {
      std::fill_n(layer_.top(t).diff(), layer_.top(t).count(), 0.0f);
    }
    layer_.top(top).diff()[index] = static_cast<float>(factor_);
    layer_.backward();
  }

  void compare_column() {
    size_t row = 0;
    for (const Leaf& leaf : leaves_) {
      const bool is_blob = leaf.name.starts_with("blob");
      for (int64_t i = 0; i < leaf.tensor->count(); ++i, ++row) {
        const double a = leaf.tensor->diff()[i] - (is_blob ? kBefore : 0.0f);
        const double n = jacobian_[row][column_];
        const double error = std::abs(a - n) / std::max({std::abs(a), std::abs(n), 1.0});
        if (error <= worst_) continue;  // false for NaN
        worst_ = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
        worst_at_ = fmt::format("{} element {}, top value {}: analytic {} numeric {}", leaf.name, i,
                                column_, a, n);
      }
    }
  }

  const LayerCase& row_;
  OneLayer layer_;
  std::vector<Leaf> leaves_;
  double factor_ = 2;
  int tops_ = 1;
  std::vector<std::vector<double>> jacobian_;  // [leaf element][top value]
  size_t column_ = 0;
  double worst_ = 0;
  std::string worst_at_;
};

TEST(LayerCases, EveryRegisteredTypeHasARow) {
  std::set<std::string> with_row;
  for (const LayerCase& row : layer_cases()) {
    with_row.insert(row.type);
    EXPECT_NE(LayerRegistry::instance().find(row.type), nullptr)
        << row.type << " has a row but is not registered";
  }
  for (const std::string& type : LayerRegistry::instance().names()) {
    EXPECT_TRUE(with_row.contains(type)) << "add a row for " << type << " to tests/layer_cases.h";
  }
}

TEST(LayerCases, GradientsAgreeWithCentralDifferences) {
  int checked = 0;
  for (const LayerCase& row : runnable_cases()) {
    if (!row.no_gradient.empty() || row.type == "Silence") continue;
    SCOPED_TRACE(row.text());
    Checker(row).run();
    ++checked;
  }
  EXPECT_GE(checked, 55);
}

TEST(LayerCases, TypesWithoutGradientSaySo) {
  for (const LayerCase& row : runnable_cases()) {
    if (row.no_gradient.empty()) continue;
    SCOPED_TRACE(row.text());
    OneLayer layer = make_case(row);
    for (int b = 0; b < layer.bottom_count(); ++b) EXPECT_FALSE(layer.layer().can_propagate(b));
    layer.forward();
  }
}

// Fills the top gradients the same way for any memory layout.
void fill_top_diffs(OneLayer& layer) {
  for (int t = 0; t < layer.top_count(); ++t) layer.randomize(layer.top(t), 50 + t, true);
}

TEST(LayerCases, InPlaceEqualsNotInPlace) {
  int checked = 0;
  for (const LayerCase& row : runnable_cases()) {
    const LayerType* type = LayerRegistry::instance().find(row.type);
    if (!type->in_place) continue;
    SCOPED_TRACE(row.text());
    OneLayer apart = make_case(row), in_place = make_case(row, 1, true);
    if (!apart.layer().may_run_in_place()) continue;
    apart.forward();
    in_place.forward();
    EXPECT_EQ(apart.top_values(0), in_place.top_values(0));
    ++checked;
    // A backward that reads the input is never run in place: the net makes a copy.
    if (apart.layer().needs().bottom_data) continue;
    fill_top_diffs(apart);
    fill_top_diffs(in_place);
    apart.backward();
    in_place.backward();
    EXPECT_EQ(apart.bottom_diffs(0), in_place.bottom_diffs(0));
    for (size_t i = 0; i < apart.layer().blobs().size(); ++i) {
      if (!apart.blob(i).has_diff()) continue;
      EXPECT_EQ(apart.blob_diffs(i), in_place.blob_diffs(i)) << "blob " << i;
    }
  }
  EXPECT_GE(checked, 14);
}

void expect_same_results(OneLayer& a, OneLayer& b, double tolerance) {
  for (int t = 0; t < a.top_count(); ++t) {
    EXPECT_EQ(compare(a.top_values(t), b.top_values(t), tolerance), "") << "top " << t;
  }
  for (int i = 0; i < a.bottom_count(); ++i) {
    if (!a.mask().bottom[i]) continue;
    EXPECT_EQ(compare(a.bottom_diffs(i), b.bottom_diffs(i), tolerance), "") << "bottom " << i;
  }
  for (size_t i = 0; i < a.layer().blobs().size(); ++i) {
    if (!a.mask().blob[i]) continue;
    EXPECT_EQ(compare(a.blob_diffs(i), b.blob_diffs(i), tolerance), "") << "blob " << i;
  }
}

// Large enough (a factor on the first axis) that element-wise loops really use their threads.
TEST(LayerCases, ThreadsDoNotChangeResults) {
  for (const LayerCase& row : runnable_cases()) {
    if (row.bottoms.empty() || row.fixed_batch) continue;
    SCOPED_TRACE(row.text());
    const int64_t times = 1 + 60000 / row.bottoms[0].shape.count();
    OneLayer one = make_case(row, 1, false, times), three = make_case(row, 3, false, times);
    for (OneLayer* layer : {&one, &three}) {
      layer->forward();
      if (!row.no_gradient.empty()) continue;
      fill_top_diffs(*layer);
      layer->backward();
    }
    if (row.no_gradient.empty()) {
      expect_same_results(one, three, 1e-5);
    } else {
      for (int t = 0; t < one.top_count(); ++t) EXPECT_EQ(one.top_values(t), three.top_values(t));
    }
  }
}

// The law behind iter_size: parameter gradients of a batch of 8 are those of 4 batches of 2, added.
TEST(LayerCases, GradientsAddUpOverMicroBatches) {
  int checked = 0;
  for (const LayerCase& row : runnable_cases()) {
    if (row.bottoms.empty() || row.fixed_batch || row.bottoms[0].shape[0] != 2) continue;
    OneLayer whole = make_case(row, 1, false, 4), part = make_case(row);
    if (whole.layer().blobs().empty()) continue;
    SCOPED_TRACE(row.text());
    whole.forward();
    fill_top_diffs(whole);
    whole.backward();
    for (int64_t micro = 0; micro < 4; ++micro) {
      for (int b = 0; b < part.bottom_count(); ++b) {
        Tensor& bottom = part.bottom(b);
        std::copy_n(whole.bottom(b).data() + micro * bottom.count(), bottom.count(), bottom.data());
      }
      part.forward();
      for (int t = 0; t < part.top_count(); ++t) {
        Tensor& top = part.top(t);
        std::copy_n(whole.top(t).diff() + micro * top.count(), top.count(), top.diff());
      }
      part.backward();
    }
    for (size_t i = 0; i < whole.layer().blobs().size(); ++i) {
      if (!whole.mask().blob[i]) continue;
      EXPECT_EQ(compare(part.blob_diffs(i), whole.blob_diffs(i), 1e-5), "") << "blob " << i;
    }
    ++checked;
  }
  EXPECT_GE(checked, 15);
}

TEST(LayerCases, SilencePassesZeroBack) {
  OneLayer layer("layer { type: 'Silence' bottom: 'a' bottom: 'b' }", {{2, 3}, {4}});
  for (int b : {0, 1}) layer.randomize(layer.bottom(b), b, true);
  layer.mask().bottom[1] = false;
  const std::vector<float> untouched = layer.bottom_diffs(1);
  layer.forward();
  layer.backward();
  EXPECT_EQ(layer.bottom_diffs(0), std::vector<float>(6, 0.0f));
  EXPECT_EQ(layer.bottom_diffs(1), untouched);
}

}  // namespace
}  // namespace kinet
