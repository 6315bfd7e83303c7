// Softmax on the device; kernels and equations in cuda/softmax.h. Parent: layers/softmax.h
#include "cuda/layer.h"
#include "cuda/softmax.h"
#include "layers/softmax.h"

namespace kinet {
namespace {

struct NothingMore {
  __device__ void operator()(int64_t, float, float) const {}
};

class CudaSoftmax : public Softmax {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    softmax_forward(gpu_of(context).stream, {outer_, classes_, inner_}, bottoms[0]->device_data(),
                    tops[0]->device_data(), NothingMore{});
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    softmax_backward(gpu_of(context).stream, {outer_, classes_, inner_}, tops[0]->device_data(),
                     tops[0]->device_diff(), bottoms[0]->device_diff());
  }
};

KINET_REGISTER_CUDA_LAYER("Softmax", CudaSoftmax);

}  // namespace
}  // namespace kinet
