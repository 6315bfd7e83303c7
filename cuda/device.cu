#include <algorithm>
#include <cmath>
#include <cstring>

#include "cuda/device.h"
#include "cuda/elementwise.h"
#include "cuda/registry.h"
#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

// Of norm(): as many blocks as give every multiprocessor work, and few enough to be added up on the
// host.
constexpr int kNormBlocks = 512;

// partial[b] = sum of x^2 over what block b walks. REQUIRES: kThreads threads
__global__ void sum_squares_kernel(int64_t n, const float* x, float* partial) {
  __shared__ float sums[kThreads];
  float sum = 0;
  KINET_GRID_STRIDE(i, n) { sum += x[i] * x[i]; }
  sums[threadIdx.x] = sum;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}

// Whether this build has code for the device that is current: a kernel as good as any.
void check_architecture(const std::string& device, const cudaDeviceProp& properties) {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, sum_squares_kernel) == cudaSuccess) return;
  cudaGetLastError();
  fail(
      "{} is of architecture sm_{}{}, for which this build has no code\nhint: configure with "
      "-D KINET_CUDA_ARCHITECTURES={}{}, with a toolkit that knows it",
      device, properties.major, properties.minor, properties.major, properties.minor);
}

}  // namespace

Gpu& gpu_of(const Context& context) { return static_cast<CudaDevice*>(context.device)->gpu(); }

CudaDevice::CudaDevice(int id) {
  gpu_.device = id;
  gpu_.memory = this;
  try {
    make_current();
    cudaDeviceProp properties{};
    KINET_CUDA_CHECK(cudaGetDeviceProperties(&properties, id));
    memory_bytes_ = properties.totalGlobalMem;
    description_ = fmt::format("GPU {}: {} ({})", id, properties.name, human_bytes(memory_bytes_));
    check_architecture(description_, properties);
    gpu_.multiprocessors = properties.multiProcessorCount;
    gpu_.shared_bytes_of_block = properties.sharedMemPerBlockOptin;
    gpu_.architecture = properties.major * 10 + properties.minor;
    for (cudaStream_t* stream : {&gpu_.stream, &downloads_, &uploads_}) {
      KINET_CUDA_CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
    for (cudaEvent_t* event : {&uploaded_, &reached_}) {
      KINET_CUDA_CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
    KINET_CUBLAS_CHECK(cublasCreate(&gpu_.blas));
    KINET_CUBLAS_CHECK(cublasSetStream(gpu_.blas, gpu_.stream));
    partial_sums_ = allocate(kNormBlocks);
    host_sums_ = allocate_host(kNormBlocks);
  } catch (...) {
    destroy();
    throw;
  }
}

CudaDevice::~CudaDevice() { destroy(); }

void CudaDevice::destroy() noexcept {
  cudaSetDevice(gpu_.device);
  for (cudaStream_t stream : {gpu_.stream, downloads_, uploads_}) {
    if (stream != nullptr) cudaStreamSynchronize(stream);
  }
  if (partial_sums_ != nullptr) release(partial_sums_);
  host_sums_.reset();
  for (const auto& [ticket, event] : unspent_) events_.push_back(event);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (cudaEvent_t event : {uploaded_, reached_}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (gpu_.blas != nullptr) cublasDestroy(gpu_.blas);
  for (cudaStream_t stream : {gpu_.stream, downloads_, uploads_}) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  allocator_.clear();
}

void CudaDevice::make_current() const { KINET_CUDA_CHECK(cudaSetDevice(gpu_.device)); }

float* CudaDevice::allocate(size_t floats) {
  make_current();
  const size_t bytes = std::max<size_t>(floats, 1) * sizeof(float);
  void* const memory = allocator_.allocate(bytes);
  if (memory == nullptr) {
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    fail_runtime(
        "out of memory on {}: {} asked for, {} free, {} in use here\nhint: a smaller batch_size "
        "needs less; nvidia-smi shows who else uses the device",
        description_, human_bytes(bytes), human_bytes(free), human_bytes(allocator_.used_bytes()));
  }
  KINET_CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, gpu_.stream));
  return static_cast<float*>(memory);
}

void CudaDevice::release(float* memory) noexcept {
  cudaSetDevice(gpu_.device);
  allocator_.release(memory);
}

std::shared_ptr<float[]> CudaDevice::allocate_host(size_t floats) {
  make_current();
  const size_t bytes = std::max<size_t>(floats, 1) * sizeof(float);
  void* memory = nullptr;
  KINET_CUDA_CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
  std::memset(memory, 0, bytes);
  return {static_cast<float*>(memory), [](float* p) { cudaFreeHost(p); }};
}

std::shared_ptr<void> CudaDevice::lock_pages(void* memory, size_t bytes,
                                             std::shared_ptr<void> owner, std::string* why) {
  make_current();
  const cudaError_t code = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
  if (code != cudaSuccess) cudaGetLastError();  // told here, not by the next call
  if (code == cudaErrorHostMemoryAlreadyRegistered) return std::make_shared<decltype(owner)>(owner);
  if (code != cudaSuccess) {
    *why = cudaGetErrorString(code);
    return nullptr;
  }
  return {memory, [owner = std::move(owner)](void* locked) { cudaHostUnregister(locked); }};
}

void CudaDevice::upload(float* device, const float* host, size_t floats) {
  if (floats == 0) return;
  make_current();
  KINET_CUDA_CHECK(
      cudaMemcpyAsync(device, host, floats * sizeof(float), cudaMemcpyHostToDevice, gpu_.stream));
  KINET_CUDA_CHECK(cudaEventRecord(uploaded_, gpu_.stream));
  uploading_ = true;
}

void CudaDevice::download(float* host, const float* device, size_t floats) {
  if (floats == 0) return;
  make_current();
  KINET_CUDA_CHECK(
      cudaMemcpyAsync(host, device, floats * sizeof(float), cudaMemcpyDeviceToHost, gpu_.stream));
}

cudaEvent_t CudaDevice::take_event() {
  if (!events_.empty()) {
    cudaEvent_t event = events_.back();
    events_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  KINET_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

uint64_t CudaDevice::ticket_on(cudaStream_t stream) {
  cudaEvent_t event = take_event();
  unspent_[++last_ticket_] = event;
  KINET_CUDA_CHECK(cudaEventRecord(event, stream));
  return last_ticket_;
}

uint64_t CudaDevice::mark() {
  make_current();
  return ticket_on(gpu_.stream);
}

uint64_t CudaDevice::upload_aside(float* device, const float* host, size_t floats, uint64_t after) {
  make_current();
  const auto given = unspent_.find(after);
  if (given == unspent_.end()) KINET_CUDA_CHECK(cudaEventRecord(reached_, gpu_.stream));
  const cudaEvent_t reached = given == unspent_.end() ? reached_ : given->second;
  KINET_CUDA_CHECK(cudaStreamWaitEvent(uploads_, reached, 0));
  if (floats > 0) {
    KINET_CUDA_CHECK(
        cudaMemcpyAsync(device, host, floats * sizeof(float), cudaMemcpyHostToDevice, uploads_));
  }
  return ticket_on(uploads_);
}

void CudaDevice::follow(uint64_t ticket) {
  const auto found = unspent_.find(ticket);
  if (found == unspent_.end()) return;
  make_current();
  KINET_CUDA_CHECK(cudaStreamWaitEvent(gpu_.stream, found->second, 0));
}

uint64_t CudaDevice::download_aside(float* host, const float* device, size_t floats) {
  make_current();
  KINET_CUDA_CHECK(cudaEventRecord(reached_, gpu_.stream));
  KINET_CUDA_CHECK(cudaStreamWaitEvent(downloads_, reached_, 0));
  if (floats > 0) {
    KINET_CUDA_CHECK(
        cudaMemcpyAsync(host, device, floats * sizeof(float), cudaMemcpyDeviceToHost, downloads_));
  }
  return ticket_on(downloads_);
}

void CudaDevice::wait(uint64_t ticket) {
  const auto found = unspent_.find(ticket);
  if (found == unspent_.end()) return;
  make_current();
  const cudaEvent_t event = found->second;
  unspent_.erase(found);
  events_.push_back(event);
  KINET_CUDA_CHECK(cudaEventSynchronize(event));
}

void CudaDevice::copy(float* to, const float* from, size_t floats) {
  if (floats == 0) return;
  make_current();
  KINET_CUDA_CHECK(
      cudaMemcpyAsync(to, from, floats * sizeof(float), cudaMemcpyDeviceToDevice, gpu_.stream));
}

void CudaDevice::fill(float* device, float value, size_t floats) {
  if (floats == 0) return;
  make_current();
  if (value == 0) {
    KINET_CUDA_CHECK(cudaMemsetAsync(device, 0, floats * sizeof(float), gpu_.stream));
    return;
  }
  fill_values(gpu_.stream, static_cast<int64_t>(floats), value, device);
}

// Squares are added in float by a thread and within a block, in double over blocks.
double CudaDevice::norm(const float* device, size_t floats) {
  if (floats == 0) return 0;
  make_current();
  const auto n = static_cast<int64_t>(floats);
  const unsigned blocks = std::min<unsigned>(blocks_for(n), kNormBlocks);
  KINET_LAUNCH(sum_squares_kernel, blocks, kThreads, 0, gpu_.stream, n, device, partial_sums_);
  KINET_CUDA_CHECK_LAUNCH();
  download(host_sums_.get(), partial_sums_, blocks);
  synchronize();
  double sum = 0;
  for (unsigned b = 0; b < blocks; ++b) sum += host_sums_[b];
  return std::sqrt(sum);
}

void CudaDevice::finish_uploads() {
  if (!uploading_) return;
  make_current();
  KINET_CUDA_CHECK(cudaEventSynchronize(uploaded_));
  uploading_ = false;
}

void CudaDevice::synchronize() {
  make_current();
  KINET_CUDA_CHECK(cudaStreamSynchronize(gpu_.stream));
  uploading_ = false;
}

std::unique_ptr<Layer> CudaDevice::make_layer(const std::string& type) const {
  const auto make = cuda_layers().find(type);
  return make == cuda_layers().end() ? nullptr : make->second();
}

std::unique_ptr<DeviceOptimizer> CudaDevice::make_optimizer(
    const std::string& type, const OptimizerSettings& settings,
    const std::vector<ParameterSegment>& segments) {
  const auto make = cuda_optimizers().find(type);
  return make == cuda_optimizers().end() ? nullptr : make->second(gpu(), settings, segments);
}

}  // namespace kinet
