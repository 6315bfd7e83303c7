// A layer full of random numbers, for tests that compare it with plain loops.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/layer_test_util.h"

namespace kinet {

// A layer outside any net, `body` being its type and message; all its tensors and gradients random.
inline OneLayer random_layer(const std::string& body, const std::vector<Shape>& bottoms,
                             int tops = 1, int threads = 1) {
  std::string text = "layer { name: 'l' " + body;
  for (size_t i = 0; i < bottoms.size(); ++i) text += fmt::format(" bottom: 'b{}'", i);
  for (int i = 0; i < tops; ++i) text += fmt::format(" top: 't{}'", i);
  OneLayer l(text + " }", bottoms, {.threads = threads});
  uint64_t stream = 0;
  const auto fill = [&](Tensor& tensor) {
    l.randomize(tensor, ++stream);
    l.randomize(tensor, ++stream, true);
  };
  for (int i = 0; i < l.bottom_count(); ++i) fill(l.bottom(i));
  for (int i = 0; i < l.top_count(); ++i) fill(l.top(i));
  for (Tensor& blob : l.layer().blobs()) fill(blob);
  return l;
}

inline void expect_near(const std::vector<float>& values, const std::vector<double>& expected,
                        const std::string& what) {
  EXPECT_EQ(compare(values, expected, 1e-5), "") << what;
}

}  // namespace kinet
