// What the tests of the prototxt parser share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "src/prototxt/node.h"

namespace kinet::prototxt_test {

using Lines = std::vector<std::string>;

inline ParamNode parse(std::string_view text) {
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(text, "f", diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << diagnostics.errors()[0] << "\nin: " << text;
  return root;
}

inline Lines errors_of(std::string_view text) {
  Diagnostics diagnostics;
  parse_prototxt(text, "f", diagnostics);
  return diagnostics.errors();
}

// Positions apart: they differ when the text is laid out anew.
inline void expect_same_tree(const ParamNode& a, const ParamNode& b) {
  ASSERT_EQ(a.name, b.name);
  ASSERT_EQ(a.kind, b.kind) << a.name;
  ASSERT_EQ(a.text, b.text) << a.name;
  ASSERT_EQ(a.children.size(), b.children.size()) << a.name;
  for (size_t i = 0; i < a.children.size(); ++i) expect_same_tree(a.children[i], b.children[i]);
}

inline void expect_round_trip(const ParamNode& tree) {
  Diagnostics diagnostics;
  const std::string text = tree.to_text();
  const ParamNode again = parse_prototxt(text, "again", diagnostics);
  ASSERT_TRUE(diagnostics.ok()) << diagnostics.errors()[0] << "\nin:\n" << text;
  expect_same_tree(tree, again);
}

inline constexpr std::string_view kLenet = R"(# a small net
name: "LeNet"
layer {
  name: "data" type: "Data" top: "data" top: 'label'
  include { phase: TRAIN }
  transform_param { scale: 0.00390625 mirror: false }
  data_param < source: "train_lmdb"; batch_size: 64, backend: LMDB >
}
layer {
  name: "conv1"
  type: "Convolution"
  bottom: "data"; top: "conv1"
  param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param: {
    num_output: 20
    kernel_size: [5, 5]
    weight_filler { type: "xavier" }
  }
}
)";

}  // namespace kinet::prototxt_test
