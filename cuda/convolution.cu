// Convolution on the device; see layers/convolution.h for equation and shapes, conv_engine.h for
// how each pass is computed.
#include <fmt/format.h>

#include "cuda/conv_columns.h"
#include "cuda/conv_depthwise.h"
#include "cuda/conv_engine.h"
#include "cuda/conv_sums.h"
#include "cuda/gemm.h"
#include "cuda/layer.h"
#include "layers/convolution.h"
#include "src/net/fusion.h"

namespace kinet {
namespace {

constexpr int kTensorCoreArchitecture = 80;  // first with tf32 and bf16

class CudaConvolution : public ConvolutionLayer, public CanEndWithRelu {
 public:
  void set_up(const std::vector<Shape>& bottoms) override {
    ConvolutionLayer::set_up(bottoms);
    const Params p = params("convolution_param");
    const std::string engine = p.get_enum("engine"), math = p.get_enum("gpu_math");
    wanted_ = engine == "CAFFE"   ? ConvEngine::kColumns
              : engine == "CUDNN" ? ConvEngine::kImplicit
                                  : ConvEngine::kAuto;
    math_ = math == "TF32"   ? ConvMath::kTf32
            : math == "BF16" ? ConvMath::kBf16
                             : ConvMath::kFloat32;
  }

  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = reshape_geometry(bottoms);
    const ConvGeometry& g = geometry();
    if (!conv_fits(g)) {
      fail_here(
          fmt::format("one image of {} (padded), its result {} and the weights may have at "
                      "most {} values each on a GPU; use smaller images, or the CPU",
                      bottoms[0].str(), tops[0].str(), kMaxLaunchFloats));
    }
    size_t floats = bias_workspace_floats(g.images, g.outputs, g.window.outputs());
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kData, ConvPass::kWeights}) {
      floats = std::max(floats, workspace_floats(choose_engine(g, pass, wanted_, math_)));
    }
    plan.temporary(workspace_, floats);
    return tops;
  }

  void end_with_relu() override { relu_ = true; }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const Gpu& gpu = gpu_of(context);
    const Tf32Products tf32(gpu, math_ != ConvMath::kFloat32);
    const float* weights = blobs()[0].device_data();
    const Ending ending(has_bias() ? blobs()[1].device_data() : nullptr, relu_);
    for (size_t i = 0; i < bottoms.size(); ++i) {
      forward(gpu, bottoms[i]->device_data(), weights, ending, tops[i]->device_data());
    }
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const Gpu& gpu = gpu_of(context);
    const Tf32Products tf32(gpu, math_ != ConvMath::kFloat32);
    const ConvGeometry& g = geometry();
    for (size_t i = 0; i < bottoms.size(); ++i) {
      const float* dy = tops[i]->device_diff();
      if (has_bias() && mask.blob[1]) {
        backward_bias(gpu, g.images, g.outputs, g.window.outputs(), dy, blobs()[1].device_diff(),
                      workspace_.device_data());
      }
      if (mask.blob[0]) {
        backward_weights(gpu, bottoms[i]->device_data(), dy, blobs()[0].device_diff());
      }
      if (mask.bottom[i]) {
        backward_data(gpu, dy, blobs()[0].device_data(), bottoms[i]->device_diff());
      }
    }
  }

 private:
  size_t workspace_floats(ConvEngine engine) const {
    switch (engine) {
      case ConvEngine::kColumns:
        return columns_workspace_floats(geometry());
      case ConvEngine::kDepthwise:
        return depthwise_workspace_floats(geometry());
      default:
        return implicit_workspace_floats(geometry());
    }
  }

  // Tensor cores where the device has them; the emulation (architecture 0) computes what they
  // would.
  ImplicitOptions options(const Gpu& gpu) const {
    const bool able = gpu.architecture == 0 || gpu.architecture >= kTensorCoreArchitecture;
    return {able ? math_ : ConvMath::kFloat32, ConvTile::kAuto};
  }
  ConvEngine engine(ConvPass pass) const { return choose_engine(geometry(), pass, wanted_, math_); }

  void forward(const Gpu& gpu, const float* x, const float* weights, const Ending& ending,
               float* y) {
    float* workspace = workspace_.device_data();
    switch (engine(ConvPass::kForward)) {
      case ConvEngine::kColumns:
        return columns_forward(gpu, geometry(), x, weights, ending, y, workspace);
      case ConvEngine::kDepthwise:
        return cuda_depthwise_forward(gpu, geometry(), x, weights, ending, y);
      default:
        return implicit_forward(gpu, geometry(), options(gpu), x, weights, ending, y, workspace);
    }
  }

  void backward_weights(const Gpu& gpu, const float* x, const float* dy, float* dw) {
    float* workspace = workspace_.device_data();
    switch (engine(ConvPass::kWeights)) {
      case ConvEngine::kColumns:
        return columns_backward_weights(gpu, geometry(), x, dy, dw, workspace);
      case ConvEngine::kDepthwise:
        return cuda_depthwise_backward_weights(gpu, geometry(), x, dy, dw, workspace);
      default:
        return implicit_backward_weights(gpu, geometry(), options(gpu), x, dy, dw, workspace);
    }
  }

  void backward_data(const Gpu& gpu, const float* dy, const float* weights, float* dx) {
    float* workspace = workspace_.device_data();
    switch (engine(ConvPass::kData)) {
      case ConvEngine::kColumns:
        return columns_backward_data(gpu, geometry(), dy, weights, dx, workspace);
      case ConvEngine::kDepthwise:
        return cuda_depthwise_backward_data(gpu, geometry(), dy, weights, dx);
      default:
        return implicit_backward_data(gpu, geometry(), options(gpu), dy, weights, dx, workspace);
    }
  }

  ConvEngine wanted_ = ConvEngine::kAuto;
  ConvMath math_ = ConvMath::kFloat32;
  bool relu_ = false;
  Workspace workspace_;
};

KINET_REGISTER_CUDA_LAYER("Convolution", CudaConvolution);

}  // namespace
}  // namespace kinet
