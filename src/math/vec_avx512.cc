// The kernels of vec.h for processors with AVX-512 F, BW, DQ and VL.
#include "src/math/vec_kernels.inc"

namespace kinet {

const VecKernels& vec_kernels_avx512() {
  static constexpr VecKernels kKernels = table("avx512");
  return kKernels;
}

}  // namespace kinet
