// Convolution in which each group has one input channel: plain loops over planes.
//
// Output plane o reads input plane o / (outputs / channels) only. Thread safety: pure functions.
#pragma once

#include "src/math/convolution.h"

namespace kinet {

void depthwise_forward(const ConvGeometry& g, int threads, const float* x, const float* weights,
                       const float* bias, float* y);
// ADDS to dw.
void depthwise_backward_weights(const ConvGeometry& g, int threads, const float* x, const float* dy,
                                float* dw);
// OVERWRITES dx.
void depthwise_backward_data(const ConvGeometry& g, int threads, const float* dy,
                             const float* weights, float* dx);

}  // namespace kinet
