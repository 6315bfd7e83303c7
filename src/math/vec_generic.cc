// The kernels of vec.h for any processor.
#include "src/math/vec_kernels.inc"

namespace kinet {

const VecKernels& vec_kernels_generic() {
  static constexpr VecKernels kKernels = table("generic");
  return kKernels;
}

}  // namespace kinet
