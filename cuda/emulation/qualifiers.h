// CUDA's qualifiers as g++ and clang understand them.
//
// __shared__ is thread_local: all threads of a block are fibres of one host thread, hence one copy
// for a block. The engine finds these variables as the TLS segment of the module that holds the
// kernel and fills it anew for every block, so such a module has no other thread_local variables.
// __noinline__ is left out: libstdc++ spells an attribute that way.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))  // alignas is refused after `static`
#define __shared__ static thread_local
