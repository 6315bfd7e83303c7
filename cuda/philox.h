// Random numbers on the device: the same function of (seed, purpose, a, b, c, index) as
// src/base/rng.h, so that a run on the device draws what a run on the host draws.
//
// The host gives a stream's beginning (stream_prefix: purpose and a are mixed in), the device mixes
// in b and c and makes blocks of four words. tests/cuda_layers_test.cc compares both. Reference:
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cstdint>

#include "cuda/gpu.h"

namespace kinet {

// Finaliser of SplitMix64, as in src/base/rng.cc.
inline __device__ uint64_t mix_words(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The stream of (purpose, a, b, c), given that of (purpose, a).
inline __device__ uint64_t stream_of(uint64_t prefix, uint64_t b, uint64_t c) {
  return mix_words(mix_words(prefix ^ b) ^ c);
}

// Words 4 index .. 4 index + 3 of a stream: one block of Philox4x32-10.
inline __device__ uint4 philox_block(uint64_t seed, uint64_t stream, uint64_t index) {
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint4 c = make_uint4(static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32));
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xd2511f53u} * c.x, p1 = uint64_t{0xcd9e8d57u} * c.z;
    c = make_uint4(static_cast<uint32_t>(p1 >> 32) ^ c.y ^ k0, static_cast<uint32_t>(p1),
                   static_cast<uint32_t>(p0 >> 32) ^ c.w ^ k1, static_cast<uint32_t>(p0));
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

}  // namespace kinet
