// threadIdx, blockIdx, blockDim, gridDim and warpSize.
//
// They are references into one structure that the engine rewrites at every switch of fibres. Plain
// globals are enough: the emulated device runs one launch at a time, whoever asked for it.
#pragma once

#include "cuda/emulation/vector_types.h"

namespace kinet::emulation {

struct Builtins {
  uint3 thread;  // of the thread that runs
  uint3 block;
  uint3 block_shape;
  uint3 grid_shape;
};
extern Builtins builtins;

// The dynamic shared memory of the block that runs; 16-byte aligned.
unsigned char* dynamic_shared_memory();

}  // namespace kinet::emulation

inline constexpr const uint3& threadIdx = kinet::emulation::builtins.thread;
inline constexpr const uint3& blockIdx = kinet::emulation::builtins.block;
inline constexpr const uint3& blockDim = kinet::emulation::builtins.block_shape;
inline constexpr const uint3& gridDim = kinet::emulation::builtins.grid_shape;
inline constexpr int warpSize = 32;
