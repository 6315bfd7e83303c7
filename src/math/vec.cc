// Choice of the kernel set. The table is built once and only read afterwards.
#include "src/math/vec.h"

#include <vector>

namespace kinet {

const VecKernels& vec_kernels_generic();
#if defined(__x86_64__)
const VecKernels& vec_kernels_avx2();
const VecKernels& vec_kernels_avx512();
#endif

namespace {

const std::vector<const VecKernels*>& variants() {
  static const std::vector<const VecKernels*> runnable = [] {
    std::vector<const VecKernels*> sets = {&vec_kernels_generic()};
#if defined(__x86_64__)
    const bool fma = __builtin_cpu_supports("fma");
    if (fma && __builtin_cpu_supports("avx2")) sets.push_back(&vec_kernels_avx2());
    if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      sets.push_back(&vec_kernels_avx512());
    }
#endif
    return sets;
  }();
  return runnable;
}

}  // namespace

const VecKernels& vec() {
  static const VecKernels& best = *variants().back();
  return best;
}

int vec_variant_count() { return static_cast<int>(variants().size()); }

const VecKernels& vec_variant(int index) { return *variants()[index]; }

}  // namespace kinet
