// Eltwise on the device.
//
// Equation: SUM  y = sum_i c_i x_i,  dx_i = c_i dy
//           PROD y = prod_i x_i,     dx_i = dy prod_{j != i} x_j, or dy y / x_i when not stable
//           MAX  y = max_i x_i,      dx_i = dy where x_i was the first maximum, else 0
// Shapes: top = every bottom; winner (MAX): the index of the bottom, as a float.
// Parent: layers/eltwise.h
#include "cuda/layer.h"
#include "cuda/weighted_sum.h"
#include "layers/eltwise.h"

namespace kinet {
namespace {

struct Product {
  __device__ float operator()(float a, float b) const { return a * b; }
};

// dy y / x
struct QuotientBackward {
  __device__ float operator()(float x, float y, float dy) const { return dy * (y / x); }
};

// y = max(a, x), winner = which; `a` is y itself from the third bottom on, then winner stays.
__global__ void __launch_bounds__(kThreads) larger_kernel(int64_t n, float bottom, const float* a,
                                                          const float* x, float* y, float* winner) {
  KINET_GRID_STRIDE(i, n) {
    const float best = a[i], value = x[i];
    const bool better = value > best;
    y[i] = better ? value : best;
    if (better) winner[i] = bottom;
    if (!better && bottom == 1) winner[i] = 0;
  }
}

struct WinnerTakes {
  float bottom;
  __device__ float operator()(float winner, float dy) const { return winner == bottom ? dy : 0; }
};

class CudaEltwise : public Eltwise {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const int64_t n = tops[0]->count();
    float* y = tops[0]->device_data();
    std::vector<const float*> x;
    for (Tensor* bottom : bottoms) x.push_back(bottom->device_data());
    if (operation_ == Operation::kSum) {
      weighted_sum(stream, n, x, coeffs_, y);
      return;
    }
    for (size_t b = 1; b < x.size(); ++b) {
      const float* before = b == 1 ? x[0] : y;
      if (operation_ == Operation::kProd) {
        map_values(stream, n, Product{}, before, x[b], y);
      } else {
        KINET_LAUNCH(larger_kernel, blocks_for(n), kThreads, 0, stream, n, static_cast<float>(b),
                     before, x[b], y, winner_.device_data());
        KINET_CUDA_CHECK_LAUNCH();
      }
    }
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const int64_t n = tops[0]->count();
    const float* dy = tops[0]->device_diff();
    for (size_t b = 0; b < bottoms.size(); ++b) {
      if (!mask.bottom[b]) continue;
      float* dx = bottoms[b]->device_diff();
      if (operation_ == Operation::kSum) {
        map_values(stream, n, Times{coeffs_[b]}, dy, dx);
      } else if (operation_ == Operation::kMax) {
        map_values(stream, n, WinnerTakes{static_cast<float>(b)}, winner_.device_data(), dy, dx);
      } else if (stable_) {
        backward_product(stream, bottoms, b, dy, dx);
      } else {
        map_values(stream, n, QuotientBackward{}, bottoms[b]->device_data(), tops[0]->device_data(),
                   dy, dx);
      }
    }
  }

 private:
  // dx = dy times all bottoms but `skip`.
  static void backward_product(cudaStream_t stream, Tensors bottoms, size_t skip, const float* dy,
                               float* dx) {
    const float* before = dy;
    for (size_t b = 0; b < bottoms.size(); ++b) {
      if (b == skip) continue;
      map_values(stream, bottoms[b]->count(), Product{}, before, bottoms[b]->device_data(), dx);
      before = dx;
    }
  }
};

KINET_REGISTER_CUDA_LAYER("Eltwise", CudaEltwise);

}  // namespace
}  // namespace kinet
