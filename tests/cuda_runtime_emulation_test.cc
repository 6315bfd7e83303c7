// The runtime of the CUDA emulation: devices, memory, copies, streams and events.
//
// ctest: labels=unit,core kernels=semantics
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cuda/emulation/control.h"
#include "tests/cuda/device_vector.h"
#include "tests/cuda/semantics.h"

namespace kinet {
namespace {

using emulation::ThreadOrder;

class CudaRuntimeEmulation : public testing::Test {
 protected:
  void SetUp() override {
    emulation::set_options({});
    emulation::reset();
  }
  void TearDown() override {
    emulation::set_options({});
    emulation::reset();
  }
  static void set_lazy(ThreadOrder order = ThreadOrder::kForward) {
    emulation::Options options;
    options.lazy_streams = true;
    options.order = order;
    emulation::set_options(options);
  }
};

TEST_F(CudaRuntimeEmulation, DeviceProperties) {
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "kinet host emulation");
  EXPECT_EQ(properties.major, 8);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
}

TEST_F(CudaRuntimeEmulation, NoDevice) {
  emulation::Options options;
  options.device_count = 0;
  emulation::set_options(options);
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, -1);  // as a device-less machine leaves it
  int* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 4), cudaErrorNoDevice);
  launch_empty(1, 1, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNoDevice);
}

TEST_F(CudaRuntimeEmulation, MemoryIsPoisonedCountedAndLimited) {
  unsigned char* bytes = nullptr;
  ASSERT_EQ(cudaMalloc(&bytes, 1000), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 256, 0u);
  std::vector<unsigned char> host(1000);
  EXPECT_EQ(cudaMemcpy(host.data(), bytes, 1000, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host, std::vector<unsigned char>(1000, 0xff));
  EXPECT_EQ(emulation::counters().bytes, 1000u);
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total - free, 1000u);
  void* too_much = &host;
  EXPECT_EQ(cudaMalloc(&too_much, total), cudaErrorMemoryAllocation);
  EXPECT_EQ(too_much, nullptr);
  EXPECT_EQ(cudaFree(bytes + 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(bytes), cudaSuccess);
  EXPECT_EQ(cudaFree(bytes), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(CudaRuntimeEmulation, CopiesCheckKindAndRange) {
  const DeviceVector<int> device(std::vector<int>{1, 2, 3, 4});
  int host[4] = {};
  EXPECT_EQ(cudaMemcpy(host, device, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, device, 17, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  const auto reports = emulation::take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_NE(emulation::text_of(reports).find("cudaMemcpy"), std::string::npos);
  EXPECT_NE(emulation::text_of(reports).find("of a 16-byte allocation"), std::string::npos);
  EXPECT_EQ(cudaMemcpy(host, device, 16, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(host[3], 4);
  EXPECT_EQ(cudaMemset(device + 1, 0, 12), cudaSuccess);
  EXPECT_EQ(device.values(), (std::vector<int>{1, 0, 0, 0}));
  EXPECT_EQ(cudaMemset(device + 1, 0, 16), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host, 0, 16), cudaErrorInvalidValue);
}

TEST_F(CudaRuntimeEmulation, CopiesOfRows) {
  const DeviceVector<char> device(std::vector<char>(12, '.'));
  EXPECT_EQ(cudaMemcpy2D(device + 1, 4, "abXcdXef", 3, 2, 3, cudaMemcpyHostToDevice), cudaSuccess);
  const std::vector<char> got = device.values();
  EXPECT_EQ(std::string(got.begin(), got.end()), ".ab..cd..ef.");
  EXPECT_EQ(cudaMemcpy2D(device, 1, "abcdef", 3, 2, 3, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
}

TEST_F(CudaRuntimeEmulation, PointerAttributes) {
  const DeviceVector<int> device(4);
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 16), cudaSuccess);
  int host = 0;
  cudaPointerAttributes attributes;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, device), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  cudaPointerGetAttributes(&attributes, pinned);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  cudaPointerGetAttributes(&attributes, &host);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaHostRegister(&host, sizeof(host), 0), cudaSuccess);
  cudaPointerGetAttributes(&attributes, &host);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostUnregister(&host), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

// --- lazy streams: work is done as late as CUDA allows

struct TwoStreams {
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
  TwoStreams() {
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreate(&event);
  }
  ~TwoStreams() {
    cudaEventDestroy(event);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  }
};

TEST_F(CudaRuntimeEmulation, LazyStreamShowsAMissingSynchronisation) {
  set_lazy();
  const TwoStreams s;
  const DeviceVector<int> device(std::vector<int>{5});
  int* pinned = nullptr;
  cudaMallocHost(&pinned, sizeof(int));
  *pinned = 0;
  add_one(device, s.a);
  cudaMemcpyAsync(pinned, device, sizeof(int), cudaMemcpyDeviceToHost, s.a);
  EXPECT_EQ(*pinned, 0);  // nobody has waited
  EXPECT_EQ(cudaStreamQuery(s.a), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(s.a), cudaSuccess);
  EXPECT_EQ(*pinned, 6);
  EXPECT_EQ(cudaStreamQuery(s.a), cudaSuccess);
  // Into pageable memory the copy has been made when the call returns.
  int host = 0;
  add_one(device, s.a);
  cudaMemcpyAsync(&host, device, sizeof(int), cudaMemcpyDeviceToHost, s.a);
  EXPECT_EQ(host, 7);
  cudaFreeHost(pinned);
}

TEST_F(CudaRuntimeEmulation, EventsOrderStreams) {
  for (ThreadOrder order : {ThreadOrder::kForward, ThreadOrder::kBackward, ThreadOrder::kRandom}) {
    set_lazy(order);
    const TwoStreams s;
    const DeviceVector<int> value(std::vector<int>{5}), copy(std::vector<int>{0});
    add_one(value, s.a);
    cudaEventRecord(s.event, s.a);
    EXPECT_EQ(cudaStreamWaitEvent(s.b, s.event), cudaSuccess);
    copy_value(value, copy, s.b);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(copy.values()[0], 6) << name_of(order);
  }
}

TEST_F(CudaRuntimeEmulation, StreamsWithoutAnEventAreNotOrdered) {
  set_lazy(ThreadOrder::kBackward);
  const TwoStreams s;
  const DeviceVector<int> value(std::vector<int>{5}), copy(std::vector<int>{0});
  add_one(value, s.a);
  copy_value(value, copy, s.b);
  cudaDeviceSynchronize();
  EXPECT_EQ(copy.values()[0], 5);
}

TEST_F(CudaRuntimeEmulation, DefaultStreamWaitsForBlockingStreamsOnly) {
  set_lazy();
  cudaStream_t blocking = nullptr, other = nullptr;
  cudaStreamCreate(&blocking);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  const DeviceVector<int> a(std::vector<int>{1}), b(std::vector<int>{1});
  add_one(a, blocking);
  add_one(b, other);
  launch_empty(1, 1, 0);  // on the default stream
  EXPECT_EQ(emulation::counters().launches, 2);
  EXPECT_EQ(b.values()[0], 1);
  cudaStreamDestroy(blocking);
  cudaStreamDestroy(other);
  EXPECT_EQ(a.values()[0], 2);
  EXPECT_EQ(b.values()[0], 2);
}

TEST_F(CudaRuntimeEmulation, EventsTellTimeAndState) {
  set_lazy();
  const TwoStreams s;
  cudaEvent_t end = nullptr;
  cudaEventCreate(&end);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, s.event, end), cudaErrorInvalidResourceHandle);
  const DeviceVector<int> value(std::vector<int>{1});
  cudaEventRecord(s.event, s.a);
  add_one(value, s.a);
  cudaEventRecord(end, s.a);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, s.event, end), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, s.event, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaErrorInvalidResourceHandle);
}

TEST_F(CudaRuntimeEmulation, DestroyedStreamIsRefused) {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  const DeviceVector<int> value(std::vector<int>{1});
  cudaGetLastError();
  add_one(value, stream);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST_F(CudaRuntimeEmulation, HostFunctionsRunInTheStreamsOrder) {
  set_lazy();
  const TwoStreams s;
  int called = 0;
  cudaLaunchHostFunc(
      s.a, [](void* data) { ++*static_cast<int*>(data); }, &called);
  EXPECT_EQ(called, 0);
  cudaStreamSynchronize(s.a);
  EXPECT_EQ(called, 1);
}

// One launch runs at a time, whoever asks; each thread has its own last error and shared memory.
TEST_F(CudaRuntimeEmulation, ThreadsOfTheHostShareTheDevice) {
  std::atomic<int> wrong = 0;
  const auto work = [&](int threads) {
    for (int i = 0; i < 200; ++i) {
      const std::vector<float> got = reverse(threads, static_cast<size_t>(threads) * sizeof(float));
      for (int t = 0; t < threads; ++t) wrong += got[static_cast<size_t>(t)] != threads - 1 - t;
    }
    launch_empty(0, 1, 0);
    wrong += cudaGetLastError() != cudaErrorInvalidConfiguration;
  };
  std::thread other(work, 40);
  work(70);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace kinet
