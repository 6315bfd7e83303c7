// What registers itself in this library. Not the Registry of src/base: two back-ends (the real one
// and the emulated one) may be open in one process, and each has its own.
//
// Thread safety: filled while the library is being opened, only read afterwards.
#pragma once

#include <map>
#include <string>

#include "cuda/layer.h"
#include "cuda/optimizer.h"

namespace kinet {

using CudaLayers = std::map<std::string, CudaLayerMaker>;
using CudaOptimizers = std::map<std::string, CudaOptimizerMaker>;

__attribute__((visibility("hidden"))) CudaLayers& cuda_layers();
__attribute__((visibility("hidden"))) CudaOptimizers& cuda_optimizers();

}  // namespace kinet
