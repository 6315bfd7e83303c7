// Silence on the device: no work forward, zero gradients backward. Parent: layers/silence.h
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "layers/silence.h"

namespace kinet {
namespace {

class CudaSilence : public Silence {
 public:
  void backward(const Context& context, Tensors, Tensors bottoms,
                const BackwardMask& mask) override {
    for (size_t b = 0; b < bottoms.size(); ++b) {
      if (!mask.bottom[b]) continue;
      fill_values(gpu_of(context).stream, bottoms[b]->count(), 0, bottoms[b]->device_diff());
    }
  }
};

KINET_REGISTER_CUDA_LAYER("Silence", CudaSilence);

}  // namespace
}  // namespace kinet
