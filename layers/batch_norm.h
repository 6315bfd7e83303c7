// BatchNorm: brings every channel to mean 0 and variance 1.
//
// Equation: y = (x - mean_c) / sqrt(var_c + eps), over samples and pixels of channel c.
//   Batch statistics (training): mean and biased variance of this batch, of m values;
//     dx = (dy - mean(dy) - y mean(dy y)) / sqrt(var_c + eps).
//   Stored statistics (test): mean_c = mean_sum / factor, var_c = var_sum / factor;
//     dx = dy / sqrt(var_c + eps). Nothing stored yet (factor 0): mean 0, variance 1.
//   Each training pass updates, with f = moving_average_fraction:
//     mean_sum = f mean_sum + mean;  var_sum = f var_sum + var m / (m - 1);  factor = f factor + 1.
// Shapes: top as bottom (axis 1 holds the channels); buffers mean_sum C, var_sum C, factor 1.
// Reference: Ioffe and Szegedy, "Batch normalization", ICML 2015. Scale and shift, there part of
//   the method, are a Scale layer of its own here, as in Caffe.
#pragma once

#include <vector>

#include "src/math/broadcast.h"
#include "src/net/layer.h"

namespace kinet {

class BatchNormLayer : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  // The result has mean 0 and variance 1, so products with it lose no digits, unlike with x.
  BackwardNeeds needs() const override { return {.top_data = !always_stored_}; }
  std::string summary() const override;

 protected:
  // Whether a pass of this phase uses the stored statistics. For subclasses on other devices.
  bool uses_stored(Phase phase) const;

  Broadcast broadcast_;
  float eps_ = 1e-5f, fraction_ = 0.999f;

 private:
  void batch_statistics(int threads, const float* x);
  void stored_statistics();
  void update_buffers();

  bool mode_given_ = false, always_stored_ = false;
  bool used_stored_ = false;                 // by the last forward pass
  std::vector<double> mean_, variance_;      // of the last forward pass
  std::vector<float> center_, inverse_std_;  // y = (x - center) * inverse_std
};

}  // namespace kinet
