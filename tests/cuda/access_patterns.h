// Kernels whose coalescing and bank conflicts can be counted by hand.
#pragma once

namespace kinet {

// One block of `threads`; thread t copies float `stride * t + offset`.
void copy_with_stride(int threads, int stride, int offset);
// One block of `threads`; thread t copies the t-th float4.
void copy_fours(int threads);
// Every thread of a warp reads the same float, and the even ones write.
void read_one_write_half();
// Three times in a loop: 32 threads read one column, then one row, of a tile of 32 rows in shared
// memory, whose rows are 32 or 33 floats long.
void read_tile(bool padded);
// 32 threads read the t-th float4 of shared memory.
void read_shared_fours();

}  // namespace kinet
