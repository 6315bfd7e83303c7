// Concat on the device: each bottom is a block of columns of the top, seen as outer rows.
//
// Equation: y[o, start_b + i] = x_b[o, i];  dx_b[o, i] = dy[o, start_b + i].
// Shapes: x_b: outer x part_b; y: outer x row. Parent: layers/concat.h
#include "cuda/copy_rows.h"
#include "cuda/layer.h"
#include "layers/concat.h"

namespace kinet {
namespace {

class CudaConcat : public Concat {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    float* y = tops[0]->device_data();
    for (size_t b = 0; b < bottoms.size(); ++b) {
      copy_rows(gpu_of(context).stream, outer_, part_[b], bottoms[b]->device_data(), part_[b],
                y + start_[b], row_);
    }
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const float* dy = tops[0]->device_diff();
    for (size_t b = 0; b < bottoms.size(); ++b) {
      if (!mask.bottom[b]) continue;
      copy_rows(gpu_of(context).stream, outer_, part_[b], dy + start_[b], row_,
                bottoms[b]->device_diff(), part_[b]);
    }
  }
};

KINET_REGISTER_CUDA_LAYER("Concat", CudaConcat);

}  // namespace
}  // namespace kinet
