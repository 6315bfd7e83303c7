#include "cuda/gpu.h"
#include "tests/cuda/device_vector.h"
#include "tests/cuda/semantics.h"

namespace kinet {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

__global__ void shuffle_kernel(int* out, int argument, int width) {
  const int t = threadIdx.x;
  out[t * 4] = __shfl_sync(kAllLanes, t * 10, argument, width);
  out[t * 4 + 1] = __shfl_up_sync(kAllLanes, t * 10, argument, width);
  out[t * 4 + 2] = __shfl_down_sync(kAllLanes, t * 10, argument, width);
  out[t * 4 + 3] = __shfl_xor_sync(kAllLanes, t * 10, argument, width);
}

__global__ void vote_kernel(int* out, unsigned mask) {
  const int t = threadIdx.x;
  if ((mask >> (t % 32) & 1u) == 0) return;
  const int even = t % 2 == 0;
  out[t * 7] = static_cast<int>(__ballot_sync(mask, even));
  out[t * 7 + 1] = __any_sync(mask, t == 3);
  out[t * 7 + 2] = __all_sync(mask, t >= 2);
  out[t * 7 + 3] = __reduce_add_sync(mask, t);
  out[t * 7 + 4] = __reduce_min_sync(mask, t - 8);
  out[t * 7 + 5] = static_cast<int>(__reduce_max_sync(mask, static_cast<unsigned>(t)));
  out[t * 7 + 6] = static_cast<int>(__match_any_sync(mask, even));
}

__global__ void count_kernel(int* out, int limit) {
  const int t = threadIdx.x;
  out[t * 3] = __syncthreads_count(t < limit);
  out[t * 3 + 1] = __syncthreads_and(t < limit);
  out[t * 3 + 2] = __syncthreads_or(t < limit);
}

__global__ void built_in_kernel(int* out) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  __syncthreads();  // the variables are those of the thread again behind a switch
  int* mine = out + (block * threads + thread) * 8;
  mine[0] = threadIdx.x;
  mine[1] = threadIdx.y;
  mine[2] = threadIdx.z;
  mine[3] = blockIdx.x;
  mine[4] = blockIdx.y;
  mine[5] = blockIdx.z;
  mine[6] = blockDim.x * 100 + blockDim.y * 10 + blockDim.z;
  mine[7] = gridDim.x * 100 + gridDim.y * 10 + gridDim.z;
}

__global__ void ticket_kernel(int* next, int* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(next, 1);
}

__global__ void atomic_kernel(unsigned* words) {
  const unsigned t = threadIdx.x;
  atomicAdd(words, t);
  atomicMax(words + 1, t);
  atomicMin(words + 2, t);
  atomicExch(words + 3, 7u);
  atomicCAS(words + 4, 0u, 9u);
  atomicAnd(words + 5, ~(1u << t % 32));
  atomicOr(words + 6, 1u << t % 32);
  atomicXor(words + 7, 1u << t % 8);
  atomicInc(words + 8, 9u);
  atomicDec(words + 9, 9u);
}

__global__ void atomic_sum_kernel(float* sum) { atomicAdd(sum, 0.5f); }

__global__ void fresh_kernel(uint32_t* out) {
  __shared__ uint32_t fixed[4];
  KINET_DYN_SHARED(uint32_t, dynamic);
  const int t = threadIdx.x;
  out[(blockIdx.x * 4 + t) * 2] = fixed[t];
  out[(blockIdx.x * 4 + t) * 2 + 1] = dynamic[t];
  __syncthreads();
  fixed[t] = dynamic[t] = 0;  // the next block must not see it
}

__global__ void reverse_kernel(float* out) {
  KINET_DYN_SHARED(float, values);
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

__global__ void vector_kernel(float* out) {
  const float4 f = make_float4(1, 2, 3, 4);
  const int2 i = make_int2(5, 6);
  const uchar4 c = make_uchar4(1, 2, 3, 250);
  out[0] = f.x + f.y + f.z + f.w;
  out[1] = static_cast<float>(i.x + i.y);
  out[2] = static_cast<float>(c.x + c.w);
  out[3] = static_cast<float>(sizeof(float4) * 100 + alignof(float4));
  out[4] = static_cast<float>(sizeof(float3) * 100 + alignof(float3));
}

__global__ void arithmetic_kernel(int* out, float nan) {
  out[0] = __popc(0xf0u);
  out[1] = __clz(1);
  out[2] = __ffs(8);
  out[3] = __float2int_rn(2.5f);
  out[4] = __float2int_rz(-2.9f);
  out[5] = __float2int_rn(1e20f);
  out[6] = __float2int_rn(nan);
  out[7] = min(3, 4) + max(3u, 7u);
  out[8] = static_cast<int>(rsqrtf(0.25f));
  out[9] = __float_as_int(1.0f);
  out[10] = static_cast<int>(__umulhi(0x80000000u, 6u));
  out[11] = static_cast<int>(10 * __saturatef(nan) + 10 * __saturatef(2.0f));
  out[12] = static_cast<int>(__brev(1u) >> 31);
}

template <int first, int second>
__global__ void two_kernel(int* out) {
  out[0] = first;
  out[1] = second;
}

__constant__ int constants[3];

__global__ void constant_kernel(int* out) { out[threadIdx.x] = constants[threadIdx.x] + 1; }

__global__ void mask_kernel(int* out) { *out = __shfl_sync(0x0000ffffu, 1, 0); }
__global__ void inactive_kernel(int* out) {
  if (threadIdx.x < 4) out[threadIdx.x] = __shfl_sync(0xfu, 1, 5);
}
__global__ void two_lines_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void never_kernel() {
  if (threadIdx.x == 0) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}
__global__ void mixed_kernel() {
  if (threadIdx.x % 2 == 0) {
    __shfl_sync(kAllLanes, 1, 0);
  } else {
    __ballot_sync(kAllLanes, 1);
  }
}
__global__ void exited_kernel() {
  if (threadIdx.x < 5) return;
  __syncthreads();
}

__global__ void empty_kernel() {}
__global__ void add_one_kernel(int* value) { ++*value; }
__global__ void copy_kernel(const int* from, int* to) { *to = *from; }

}  // namespace

std::vector<int> shuffles(int threads, int argument, int width) {
  const DeviceVector<int> out(static_cast<size_t>(threads) * 4);
  KINET_LAUNCH(shuffle_kernel, 1, threads, 0, nullptr, out, argument, width);
  return out.values();
}

std::vector<int> votes(int threads, unsigned mask) {
  const DeviceVector<int> out(std::vector<int>(static_cast<size_t>(threads) * 7, -7));
  KINET_LAUNCH(vote_kernel, 1, threads, 0, nullptr, out, mask);
  return out.values();
}

std::vector<int> counted_barriers(int threads, int limit) {
  const DeviceVector<int> out(static_cast<size_t>(threads) * 3);
  KINET_LAUNCH(count_kernel, 1, threads, 0, nullptr, out, limit);
  return out.values();
}

std::vector<int> built_ins(dim3 grid, dim3 block) {
  const size_t threads = size_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
  const DeviceVector<int> out(threads * 8);
  KINET_LAUNCH(built_in_kernel, grid, block, 0, nullptr, out);
  return out.values();
}

std::vector<int> tickets(int blocks, int threads) {
  const DeviceVector<int> next(std::vector<int>{0}), out(static_cast<size_t>(blocks * threads));
  KINET_LAUNCH(ticket_kernel, blocks, threads, 0, nullptr, next, out);
  return out.values();
}

std::vector<unsigned> atomics() {
  const DeviceVector<unsigned> words({0, 0, 100, 0, 0, ~0u, 0, 0, 0, 0});
  KINET_LAUNCH(atomic_kernel, 1, 64, 0, nullptr, words);
  return words.values();
}

float atomic_sum(int threads) {
  const DeviceVector<float> sum(std::vector<float>{0});
  KINET_LAUNCH(atomic_sum_kernel, 1, threads, 0, nullptr, sum);
  return sum.values()[0];
}

std::vector<uint32_t> fresh_shared_memory(int blocks) {
  const DeviceVector<uint32_t> out(static_cast<size_t>(blocks) * 8);
  KINET_LAUNCH(fresh_kernel, blocks, 4, 16, nullptr, out);
  return out.values();
}

std::vector<float> reverse(int threads, size_t bytes) {
  const DeviceVector<float> out(static_cast<size_t>(threads));
  KINET_LAUNCH(reverse_kernel, 1, threads, bytes, nullptr, out);
  return out.values();
}

std::vector<float> vectors() {
  const DeviceVector<float> out(5);
  KINET_LAUNCH(vector_kernel, 1, 1, 0, nullptr, out);
  return out.values();
}

std::vector<int> arithmetic() {
  const DeviceVector<int> out(13);
  KINET_LAUNCH(arithmetic_kernel, 1, 1, 0, nullptr, out, nanf(""));
  return out.values();
}

std::vector<int> template_commas() {
  const DeviceVector<int> out(2);
  KINET_LAUNCH((two_kernel<3, 4>), 1, 1, 0, nullptr, out);
  return out.values();
}

std::vector<int> constant_memory() {
  const int values[] = {10, 20, 30};
  cudaMemcpyToSymbol(constants, values, sizeof(values));
  const DeviceVector<int> out(3);
  KINET_LAUNCH(constant_kernel, 1, 3, 0, nullptr, out);
  std::vector<int> got = out.values();
  got.resize(6);
  cudaMemcpyFromSymbol(got.data() + 3, constants, sizeof(values));
  return got;
}

void mask_without_caller() {
  const DeviceVector<int> out(1);
  KINET_LAUNCH(mask_kernel, 1, 32, 0, nullptr, out);
}
void read_inactive_lane() {
  const DeviceVector<int> out(4);
  KINET_LAUNCH(inactive_kernel, 1, 32, 0, nullptr, out);
}
void barriers_at_two_lines() { KINET_LAUNCH(two_lines_kernel, 1, 64, 0, nullptr); }
void barrier_never_reached() { KINET_LAUNCH(never_kernel, 1, 32, 0, nullptr); }
void mixed_operations() { KINET_LAUNCH(mixed_kernel, 1, 32, 0, nullptr); }
void exited_before_barrier() { KINET_LAUNCH(exited_kernel, 1, 40, 0, nullptr); }

void launch_empty(dim3 grid, dim3 block, size_t shared_bytes) {
  KINET_LAUNCH(empty_kernel, grid, block, shared_bytes, nullptr);
}
cudaError_t allow_shared(int bytes) {
  return cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
void add_one(int* value, cudaStream_t stream) {
  KINET_LAUNCH(add_one_kernel, 1, 1, 0, stream, value);
}
void copy_value(const int* from, int* to, cudaStream_t stream) {
  KINET_LAUNCH(copy_kernel, 1, 1, 0, stream, from, to);
}

}  // namespace kinet
