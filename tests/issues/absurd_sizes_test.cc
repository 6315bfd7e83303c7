// Sizes that no machine can hold, in every field that makes a shape: an error with the layer and
// its place at once, never a crash, a wrapped product or memory touched in vain.
#include <gtest/gtest.h>

#include "src/base/check.h"
#include "src/base/memory.h"
#include "src/net/net.h"
#include "tests/data_files.h"
#include "tests/prototxt_helpers.h"

namespace kinet {
namespace {

using namespace prototxt_test;  // NOLINT: a test helper

std::string build_error(const std::string& text) {
  try {
    const Net net(prepare_net(parse(text)), NetOptions{});
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 2) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error for " << text;
  return "";
}

std::string input(const std::string& dims) {
  return "layer { name: \"data\" type: \"Input\" top: \"x\" input_param { shape { dim: [" + dims +
         "] } } }\n";
}

// One layer of that type above an Input of 1 x 1 x 8 x 8, on line 2.
std::string above(const std::string& type, const std::string& fields) {
  return build_error(input("1, 1, 8, 8") + "layer { name: \"l\" type: \"" + type +
                     "\" bottom: \"x\" top: \"y\" " + fields + " }");
}

TEST(AbsurdSizes, ProductsThatWrapAreRefused) {
  const std::string limit = "has more elements than kinet can hold (at most 2^40)";
  for (const char* dims : {"9223372036854775807", "4294967296, 4294967296", "1, 1048577, 1048576",
                           "9223372036854775807, 2, 9223372036854775807"}) {
    const std::string error = build_error(input(dims));
    EXPECT_EQ(error.find("f:1:1: layer 'data' (Input): shape "), 0u) << error;
    EXPECT_CONTAINS(error, limit);
  }
  const Shape most{1 << 20, 1 << 20};
  EXPECT_EQ(most.count(), kMaxElements);
  EXPECT_THROW((Shape{kMaxElements, 0, 2}.count()), Error);
  EXPECT_EQ((Shape{kMaxElements, 0}.count()), 0);
}

TEST(AbsurdSizes, MoreThanTheMachineIsRefusedAtOnce) {
  const std::string there = "of memory, but this machine has ";
  const std::string error = build_error(input("1024, 1024, 1024, 1024"));
  EXPECT_CONTAINS(error, "f:1:1: layer 'data' (Input): top 'x' of shape 1024x1024x1024x1024");
  EXPECT_CONTAINS(error, "needs 4.4 TB " + there);
  // Many tops that fit one by one, but not together.
  const uint64_t third = physical_memory() / sizeof(float) / 3;
  std::string net;
  for (int i = 0; i < 4; ++i) {
    net += "layer { name: \"d" + std::to_string(i) + "\" type: \"Input\" top: \"x" +
           std::to_string(i) + "\" input_param { shape { dim: " + std::to_string(third) +
           " } } }\n";
  }
  EXPECT_CONTAINS(build_error(net), "f:4:1: layer 'd3' (Input): top 'x3'");
  const std::string wide = above("InnerProduct", "inner_product_param { num_output: 2147483647 }");
  EXPECT_CONTAINS(wide, "layer 'l' (InnerProduct)");
  EXPECT_CONTAINS(wide, there);
  Buffer buffer;
  EXPECT_CONTAINS(message_of([&] { buffer.reserve(SIZE_MAX / 8); }), there);
}

TEST(AbsurdSizes, Convolution) {
  const auto error = [](const std::string& fields) {
    const std::string text = above("Convolution", "convolution_param { " + fields + " }");
    EXPECT_EQ(text.find("f:2:"), 0u) << text;
    EXPECT_CONTAINS(text, "layer 'l' (Convolution)");
    return text;
  };
  EXPECT_CONTAINS(error("num_output: 1 kernel_size: 3 pad: 2147483645"), "more elements");
  EXPECT_CONTAINS(error("num_output: 1 kernel_size: 3 pad: 4294967295"), "up to 2147483647");
  EXPECT_CONTAINS(error("num_output: 1 kernel_size: 2147483647"), "more elements");
  EXPECT_CONTAINS(error("num_output: 1 kernel_h: 1 kernel_w: 3 dilation: 2147483647"),
                  "does not fit");
  EXPECT_CONTAINS(error("num_output: 2147483647 kernel_size: 8"), "of memory");
  EXPECT_CONTAINS(error("num_output: 1 kernel_size: 1 pad: 100000"), "outputs a channel");
  EXPECT_CONTAINS(error("num_output: 1 kernel_size: 20000 pad: 20000"), "too many values");
}

TEST(AbsurdSizes, Pooling) {
  const auto error = [](const std::string& fields) {
    const std::string text = above("Pooling", "pooling_param { " + fields + " }");
    EXPECT_EQ(text.find("f:2:"), 0u) << text;
    EXPECT_CONTAINS(text, "layer 'l' (Pooling)");
    return text;
  };
  EXPECT_CONTAINS(error("kernel_size: 2147483647"), "do not fit a bottom of shape 1x1x8x8");
  EXPECT_CONTAINS(error("kernel_size: 4294967295"), "up to 2147483647");
  EXPECT_CONTAINS(error("kernel_size: 3 stride: 4294967295"), "up to 2147483647");
  EXPECT_CONTAINS(error("kernel_size: 2147483647 pad: 2147483646"), "more elements");
  EXPECT_CONTAINS(error("kernel_size: 3 pad: 3"), "must be less than the kernel size");
}

TEST(AbsurdSizes, Reshape) {
  const auto error = [](const std::string& fields) {
    return above("Reshape", "reshape_param { " + fields + " }");
  };
  EXPECT_CONTAINS(error("shape { dim: [9223372036854775807, 2, -1] }"), "more elements");
  EXPECT_CONTAINS(error("shape { dim: -1 } axis: 2 num_axes: 2147483647"), "do not fit shape");
  EXPECT_CONTAINS(error("shape { dim: -1 } axis: 2 num_axes: 4294967297"), "up to 2147483647");
  EXPECT_CONTAINS(above("Flatten", "flatten_param { axis: 4294967297 }"), "up to 2147483647");
  EXPECT_CONTAINS(above("Scale", "scale_param { num_axes: 2147483647 }"), "do not fit");
}

// 4 batches ahead and the one in use, each of 10 items; the error names the data layer.
TEST(AbsurdSizes, BatchLargerThanMemory) {
  const TemporaryFolder folder;
  write_counting_idx(folder, 20, 6, 6);
  const std::string error = build_error(
      "layer { name: \"mnist\" type: \"MnistData\" top: \"x\" top: \"l\" mnist_data_param { "
      "images: \"" +
      (folder / "images-idx3") + "\" labels: \"" + (folder / "labels-idx1") +
      "\" batch_size: 2147483647 } }");
  EXPECT_EQ(error.find("f:1:1: layer 'mnist' (MnistData): batch_size 2147483647"), 0u) << error;
  EXPECT_CONTAINS(error, "of images 1x6x6 with prefetch 4 needs 1.5 TB of memory");
}

}  // namespace
}  // namespace kinet
