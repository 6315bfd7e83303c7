// The kernels of vec.h for processors with AVX2 and FMA.
#include "src/math/vec_kernels.inc"

namespace kinet {

const VecKernels& vec_kernels_avx2() {
  static constexpr VecKernels kKernels = table("avx2");
  return kKernels;
}

}  // namespace kinet
