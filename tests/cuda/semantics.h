// Small kernels that show what the emulation does; tests/cuda_emulation_test.cc says what they must
// give.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

namespace kinet {

// For each lane of one warp of `threads`: shuffles (plain, up, down, xor) by `argument`, in groups
// of `width`; four results for each thread.
std::vector<int> shuffles(int threads, int argument, int width);
// ballot, any, all, add, min, max, match of whether the lane is even; seven for each thread.
std::vector<int> votes(int threads, unsigned mask);
// __syncthreads_count, _and, _or of threadIdx.x < limit; three for each thread.
std::vector<int> counted_barriers(int threads, int limit);
// What each thread of each block sees in its built-in variables: eight values each.
std::vector<int> built_ins(dim3 grid, dim3 block);
// Order in which threads write: each takes a ticket.
std::vector<int> tickets(int blocks, int threads);
// add, max, min, exchange, compare-and-swap, and, or, xor, inc, dec of 64 threads on one word each.
std::vector<unsigned> atomics();
float atomic_sum(int threads);
// Values that shared memory has at the start of each block: static, dynamic.
std::vector<uint32_t> fresh_shared_memory(int blocks);
// A reversal in dynamic shared memory of `bytes`.
std::vector<float> reverse(int threads, size_t bytes);
std::vector<float> vectors();        // sums of members of vector types
std::vector<int> arithmetic();       // bit counts, conversions, minima
std::vector<int> template_commas();  // a kernel with two template arguments
std::vector<int> constant_memory();  // cudaMemcpyToSymbol, FromSymbol

// Kernels with faults that fast mode reports as well.
void mask_without_caller();
void read_inactive_lane();
void barriers_at_two_lines();
void barrier_never_reached();  // waits in a warp operation for lanes at a barrier
void mixed_operations();
void exited_before_barrier();

// Launches an empty kernel.
void launch_empty(dim3 grid, dim3 block, size_t shared_bytes);
cudaError_t allow_shared(int bytes);  // for that kernel
void add_one(int* value, cudaStream_t stream);
void copy_value(const int* from, int* to, cudaStream_t stream);

}  // namespace kinet
