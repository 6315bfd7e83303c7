// PReLU on the device.
//
// Equation: y = x where x > 0, a_c x elsewhere;
//   dx = dy where x > 0, a_c dy elsewhere;  da_c += sum over x_c <= 0 of dy x.
// Shapes: top = bottom, samples x channels x inner; a: channels, or one value. Backward reads x.
// Parent: layers/prelu.h
#include "cuda/channels.h"
#include "cuda/layer.h"
#include "layers/prelu.h"

namespace kinet {
namespace {

// f(c, x) and, given the sign, f(c, dy).
struct PreluForward {
  const float* slope;
  __device__ float operator()(int64_t c, float x, float) const { return x > 0 ? x : slope[c] * x; }
};

struct PreluBackward {
  const float* slope;
  __device__ float operator()(int64_t c, float x, float dy) const {
    return x > 0 ? dy : slope[c] * dy;
  }
};

// (dy x over the negative side, 0)
struct SlopeTerms {
  __device__ void begin(int64_t) {}
  __device__ float2 operator()(float x, float dy) const {
    return make_float2(x > 0 ? 0 : x * dy, 0);
  }
};

class CudaPrelu : public Prelu {
 public:
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = Prelu::reshape(bottoms, plan);
    // With one slope for all, everything is one channel.
    shape_ = shared_ ? Broadcast{samples_, 1, channels_ * inner_}
                     : Broadcast{samples_, channels_, inner_};
    plan.temporary(parts_, SumPlan(shape_).floats(shape_));
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const float* x = bottoms[0]->device_data();
    map_channels(gpu_of(context).stream, shape_, PreluForward{blobs()[0].device_data()}, x, x,
                 tops[0]->device_data());
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const float *x = bottoms[0]->device_data(), *dy = tops[0]->device_diff();
    // The slopes first: in place, dx overwrites dy.
    if (mask.blob[0]) {
      const Gradients slopes{blobs()[0].device_diff(), nullptr, true, false};
      sum_channels(stream, shape_, SlopeTerms{}, x, dy, parts_.device_data(), slopes);
    }
    if (!mask.bottom[0]) return;
    map_channels(stream, shape_, PreluBackward{blobs()[0].device_data()}, x, dy,
                 bottoms[0]->device_diff());
  }

 private:
  Broadcast shape_;
  Workspace parts_;  // temporary
};

KINET_REGISTER_CUDA_LAYER("PReLU", CudaPrelu);

}  // namespace
}  // namespace kinet
