// ReLU as a function of one value, for its own kernels and for those that end with it.
#pragma once

#include <cstdint>

#include "cuda/gpu.h"

namespace kinet {

// y = x where x > 0, slope x elsewhere. With slope 0 as well the product is formed: what is not
// finite stays visible, and the fused form gives the bits of the layer.
struct ReluForward {
  float slope;
  __device__ float operator()(float x) const { return x > 0 ? x : slope * x; }
};

// What a kernel does with a value before it stores it: adds a bias, or not, and applies ReLU, or
// not.
struct Ending {
  const float* bias;  // null, or one value for each row or channel
  bool relu;

  Ending(const float* values = nullptr, bool with_relu = false) : bias(values), relu(with_relu) {}
  bool nothing() const { return bias == nullptr && !relu; }
  __device__ float bias_of(int64_t row) const { return bias != nullptr ? bias[row] : 0.f; }
  // REQUIRES: the bias is added
  __device__ float finish(float value) const { return relu ? ReluForward{0}(value) : value; }
};

}  // namespace kinet
