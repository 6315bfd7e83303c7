// Slice on the device: each top is a block of columns of the bottom, seen as outer rows.
//
// Equation: y_t[o, i] = x[o, start_t + i];  dx[o, start_t + i] = dy_t[o, i], 0 where a top has no
//   gradient.
// Shapes: x: outer x row; y_t: outer x part_t. Parent: layers/slice.h
#include "cuda/copy_rows.h"
#include "cuda/layer.h"
#include "layers/slice.h"

namespace kinet {
namespace {

class CudaSlice : public Slice {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const float* x = bottoms[0]->device_data();
    for (size_t t = 0; t < tops.size(); ++t) {
      const int64_t part = start_[t + 1] - start_[t];
      copy_rows(gpu_of(context).stream, outer_, part, x + start_[t], row_, tops[t]->device_data(),
                part);
    }
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const cudaStream_t stream = gpu_of(context).stream;
    float* dx = bottoms[0]->device_diff();
    for (const Tensor* top : tops) {
      if (top->has_diff()) continue;
      fill_values(stream, outer_ * row_, 0, dx);  // before the parts that are known
      break;
    }
    for (size_t t = 0; t < tops.size(); ++t) {
      if (!tops[t]->has_diff()) continue;
      const int64_t part = start_[t + 1] - start_[t];
      copy_rows(stream, outer_, part, tops[t]->device_diff(), part, dx + start_[t], row_);
    }
  }
};

KINET_REGISTER_CUDA_LAYER("Slice", CudaSlice);

}  // namespace
}  // namespace kinet
