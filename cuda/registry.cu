#include "cuda/registry.h"
#include "src/base/check.h"

namespace kinet {

CudaLayers& cuda_layers() {
  static CudaLayers layers;
  return layers;
}

CudaOptimizers& cuda_optimizers() {
  static CudaOptimizers optimizers;
  return optimizers;
}

bool register_cuda_layer(const std::string& type, CudaLayerMaker make) {
  KINET_CHECK(cuda_layers().emplace(type, make).second, "CUDA layer '{}' is registered twice",
              type);
  return true;
}

bool register_cuda_optimizer(const std::string& type, CudaOptimizerMaker make) {
  KINET_CHECK(cuda_optimizers().emplace(type, make).second,
              "CUDA update rule '{}' is registered twice", type);
  return true;
}

// Frozen segments do not move, so they have no blocks.
std::vector<UpdateBlock> update_blocks(const std::vector<ParameterSegment>& segments) {
  std::vector<UpdateBlock> blocks;
  for (const ParameterSegment& segment : segments) {
    if (segment.lr_mult == 0) continue;
    for (size_t begin = 0; begin < segment.count; begin += kUpdateBlock) {
      UpdateBlock block;
      block.offset = static_cast<int64_t>(segment.offset + begin);
      block.count = static_cast<int>(std::min<size_t>(kUpdateBlock, segment.count - begin));
      block.lr_mult = segment.lr_mult;
      block.decay_mult = segment.decay_mult;
      blocks.push_back(block);
    }
  }
  return blocks;
}

}  // namespace kinet
