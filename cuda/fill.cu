// y[i] = value; see elementwise.h.
#include "cuda/elementwise.h"

namespace kinet {
namespace {

__global__ void __launch_bounds__(kThreads)
    fill_kernel(int64_t n, int64_t groups, float value, float* y) {
  KINET_GRID_STRIDE(i, groups) { store_4(y + 4 * i, make_float4(value, value, value, value)); }
  KINET_GRID_STRIDE(i, n - 4 * groups) {
    const int64_t at = 4 * groups + i;
    y[at] = value;
  }
}

}  // namespace

void fill_values(cudaStream_t stream, int64_t n, float value, float* y) {
  if (n == 0) return;
  const int64_t groups = groups_of_4(n, y);
  KINET_LAUNCH(fill_kernel, blocks_for(groups > 0 ? groups : n), kThreads, 0, stream, n, groups,
               value, y);
  KINET_CUDA_CHECK_LAUNCH();
}

}  // namespace kinet
