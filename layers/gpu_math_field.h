// What a GPU multiplies with: float32, or the narrower numbers of its tensor cores.
#pragma once

#include "src/prototxt/fields.h"

namespace kinet {

inline Field gpu_math_field() {
  return enum_field("gpu_math", {{"FLOAT32", 0}, {"TF32", 1}, {"BF16", 2}}, "FLOAT32",
                    "What a GPU may round the factors of products to, several times faster from "
                    "sm_80 on: tf32 keeps 10 bits of mantissa, bf16 7 (tf32 in products by "
                    "cuBLAS). Sums are float32. The CPU always multiplies float32.");
}

}  // namespace kinet
