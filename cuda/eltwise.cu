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

// Some bottoms of a MAX: x[t] is number first + t. Behind the first pass x[0] is y, the largest of
// those before, whose numbers are in `winner`.
struct Rivals {
  const float* x[kMostTerms];
  int count, first;
};

template <int kWide>
__device__ void take_larger(const Rivals& rivals, int64_t i, float* y, float* winner) {
  Wide<kWide> best = load_wide<kWide>(rivals.x[0] + i);
  Wide<kWide> number = rivals.first > 0 ? load_wide<kWide>(winner + i) : Wide<kWide>{};
#pragma unroll
  for (int t = 1; t < kMostTerms; ++t) {
    if (t >= rivals.count) continue;
    const Wide<kWide> x = load_wide<kWide>(rivals.x[t] + i);
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      const bool better = x.v[j] > best.v[j];
      best.v[j] = better ? x.v[j] : best.v[j];
      number.v[j] = better ? static_cast<float>(rivals.first + t) : number.v[j];
    }
  }
  store_wide(y + i, best);
  store_wide(winner + i, number);
}

__global__ void __launch_bounds__(kThreads)
    larger_kernel(int64_t n, int64_t groups, Rivals rivals, float* y, float* winner) {
  KINET_GRID_STRIDE(i, groups) { take_larger<4>(rivals, 4 * i, y, winner); }
  KINET_GRID_STRIDE(i, n - 4 * groups) { take_larger<1>(rivals, 4 * groups + i, y, winner); }
}

void largest(cudaStream_t stream, int64_t n, const std::vector<const float*>& x, float* y,
             float* winner) {
  if (n == 0) return;
  for (size_t next = 0; next < x.size();) {
    Rivals rivals{};
    if (next > 0) {
      rivals.x[0] = y;
      rivals.count = 1;
      rivals.first = static_cast<int>(next) - 1;
    }
    bool aligned = aligned_16(y) && aligned_16(winner);
    for (; rivals.count < kMostTerms && next < x.size(); ++next, ++rivals.count) {
      rivals.x[rivals.count] = x[next];
      aligned = aligned && aligned_16(x[next]);
    }
    const int64_t groups = aligned ? n / 4 : 0;
    KINET_LAUNCH(larger_kernel, blocks_for(groups > 0 ? groups : n), kThreads, 0, stream, n, groups,
                 rivals, y, winner);
    KINET_CUDA_CHECK_LAUNCH();
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
    if (operation_ == Operation::kMax) {
      largest(stream, n, x, y, winner_.device_data());
      return;
    }
    for (size_t b = 1; b < x.size(); ++b) {
      map_values(stream, n, Product{}, b == 1 ? x[0] : y, x[b], y);
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
