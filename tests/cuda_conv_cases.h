// Convolutions for tests of the CUDA kernels: geometries that end in the middle of every tile, and
// the CPU's results for them.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/math/convolution.h"

namespace kinet {

struct CudaConvCase {
  std::string name;
  ConvGeometry g;
};

inline ConvAxis conv_axis(int64_t size, int64_t kernel, int64_t stride = 1, int64_t pad = 0,
                          int64_t dilation = 1) {
  return {size, kernel, stride, pad, dilation};
}

inline CudaConvCase square_conv(std::string name, int64_t images, int64_t channels, int64_t size,
                                int64_t outputs, int64_t groups, int64_t kernel, int64_t stride = 1,
                                int64_t pad = 0, int64_t dilation = 1) {
  const ConvAxis axis = conv_axis(size, kernel, stride, pad, dilation);
  return {std::move(name), {{axis, axis}, images, channels, outputs, groups}};
}

// Small enough for check mode.
inline std::vector<CudaConvCase> small_conv_cases() {
  return {
      square_conv("one_value", 1, 1, 1, 1, 1, 1),
      square_conv("plain", 2, 3, 7, 5, 1, 3),
      square_conv("strided_padded", 2, 2, 8, 4, 1, 3, 2, 1),
      {"rectangular", {{conv_axis(9, 5, 3, 2), conv_axis(11, 2, 1, 0)}, 2, 3, 4, 1}},
      {"dilated", {{conv_axis(9, 3, 1, 2, 2), conv_axis(8, 3, 2, 3, 3)}, 1, 3, 6, 1}},
      square_conv("grouped", 2, 6, 5, 9, 3, 3, 1, 1),
      square_conv("depthwise", 2, 5, 7, 5, 5, 3, 1, 1),
      square_conv("depthwise_doubled", 2, 3, 6, 6, 3, 3, 2, 1),
      square_conv("one_by_one", 3, 7, 4, 6, 1, 1),
      square_conv("one_by_one_strided", 3, 7, 5, 6, 1, 1, 2),
      square_conv("kernel_larger_than_image", 2, 2, 2, 3, 1, 5, 1, 2),
      square_conv("wholly_padded_rows", 2, 2, 3, 3, 1, 1, 2, 4),
  };
}

// Several tiles in both directions, many slabs, several slices of a weight gradient.
inline std::vector<CudaConvCase> large_conv_cases() {
  return {
      square_conv("several_tiles", 3, 9, 13, 133, 1, 3, 1, 1),
      square_conv("whole_quads", 2, 8, 12, 68, 1, 3, 1, 1),
      square_conv("many_channels", 2, 130, 5, 20, 1, 3, 1, 1),
      square_conv("long_sum", 9, 4, 17, 6, 1, 3, 1, 1),
      square_conv("grouped_tiles", 2, 16, 9, 140, 2, 3, 2, 1),
      square_conv("depthwise_long_sum", 5, 3, 33, 3, 3, 3, 1, 1),
      square_conv("lenet_conv1", 4, 1, 28, 20, 1, 5),
  };
}

inline std::vector<float> random_floats(int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

// Inputs, and what the CPU makes of them. Gradients start with values of their own: passes add.
struct ConvData {
  std::vector<float> x, weights, bias, dy, dw0, db0;
  std::vector<float> y, dx, dw, db;

  // `round` is applied to what is multiplied, as tensor cores do.
  template <class Round>
  ConvData(const ConvGeometry& g, const Round& round)
      : x(random_floats(g.images * g.input(), 1)),
        weights(random_floats(g.weights(), 2)),
        bias(random_floats(g.outputs, 3)),
        dy(random_floats(g.images * g.output(), 4)),
        dw0(random_floats(g.weights(), 5)),
        db0(random_floats(g.outputs, 6)),
        y(dy.size()),
        dx(x.size()),
        dw(dw0),
        db(db0) {
    const auto rounded = [&](std::vector<float> values) {
      for (float& value : values) value = round(value);
      return values;
    };
    const std::vector<float> rx = rounded(x), rw = rounded(weights), rdy = rounded(dy);
    const ConvPlan plan(g, 1);
    std::vector<float> workspace(plan.workspace_floats() + 16);
    plan.forward(1, rx.data(), rw.data(), bias.data(), y.data(), workspace.data());
    plan.backward_data(1, rdy.data(), rw.data(), dx.data(), workspace.data());
    plan.backward_weights(1, rx.data(), rdy.data(), dw.data(), workspace.data());
    plan.backward_bias(1, dy.data(), db.data());
  }
};

}  // namespace kinet
