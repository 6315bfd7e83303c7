// The CUDA emulation in fast mode: built-in variables, barriers, warp operations, atomics, shared
// memory, thread orders, limits of launches, and reports.
//
// ctest: labels=unit,core kernels=semantics
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "cuda/emulation/control.h"
#include "tests/cuda/semantics.h"

namespace kinet {
namespace {

using emulation::Fault;
using emulation::Report;
using emulation::ThreadOrder;

void use(ThreadOrder order, uint64_t seed = 1) {
  emulation::Options options;
  options.order = order;
  options.seed = seed;
  emulation::set_options(options);
}

class CudaEmulation : public testing::TestWithParam<ThreadOrder> {
 protected:
  void SetUp() override {
    emulation::reset();
    use(GetParam());
  }
  void TearDown() override {
    emulation::reset();
    emulation::set_options({});
  }
  static void expect_no_fault() {
    EXPECT_EQ(emulation::text_of(emulation::take_reports()), "");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  // One report of the fault, at a line of the kernels' file.
  static void expect_fault(Fault fault, const std::string& text) {
    const std::vector<Report> reports = emulation::take_reports();
    const auto found = std::find_if(reports.begin(), reports.end(),
                                    [&](const Report& r) { return r.fault == fault; });
    ASSERT_NE(found, reports.end()) << emulation::text_of(reports);
    EXPECT_EQ(found->place.substr(0, 13), "semantics.cu:");
    EXPECT_NE(found->text.find(text), std::string::npos) << found->text;
  }
};

TEST_P(CudaEmulation, BuiltInVariables) {
  const std::vector<int> got = built_ins(dim3(2, 3, 2), dim3(4, 2, 3));
  size_t at = 0;
  for (int block = 0; block < 12; ++block) {
    for (int thread = 0; thread < 24; ++thread, at += 8) {
      const std::vector<int> expected{thread % 4,    thread / 4 % 2, thread / 8, block % 2,
                                      block / 2 % 3, block / 6,      423,        232};
      ASSERT_EQ(std::vector<int>(got.begin() + at, got.begin() + at + 8), expected);
    }
  }
  expect_no_fault();
}

TEST_P(CudaEmulation, Shuffles) {
  const std::vector<int> got = shuffles(32, 3, 8);
  for (int lane = 0; lane < 32; ++lane) {
    const int first = lane / 8 * 8;
    EXPECT_EQ(got[lane * 4], (first + 3) * 10);
    EXPECT_EQ(got[lane * 4 + 1], (lane - 3 >= first ? lane - 3 : lane) * 10);
    EXPECT_EQ(got[lane * 4 + 2], (lane + 3 < first + 8 ? lane + 3 : lane) * 10);
    EXPECT_EQ(got[lane * 4 + 3], (lane ^ 3) * 10);
  }
  expect_no_fault();
}

TEST_P(CudaEmulation, ShuffleIndicesWrapInTheirGroup) {
  const std::vector<int> got = shuffles(32, 18, 16);
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(got[lane * 4], (lane / 16 * 16 + 2) * 10);
    // By xor a lane reaches an earlier group, but not a later one.
    EXPECT_EQ(got[lane * 4 + 3], (lane < 16 ? lane : (lane ^ 18)) * 10);
  }
  expect_no_fault();
}

TEST_P(CudaEmulation, Votes) {
  const std::vector<int> got = votes(40, 0xffu);
  for (int t : {0, 3, 7, 32, 39}) {
    const int first = t / 32 * 32;
    const std::vector<int> expected{0x55,
                                    first == 0,
                                    first != 0,
                                    first * 8 + 28,
                                    first - 8,
                                    first + 7,
                                    t % 2 == 0 ? 0x55 : 0xaa};
    EXPECT_EQ(std::vector<int>(got.begin() + t * 7, got.begin() + t * 7 + 7), expected) << t;
  }
  EXPECT_EQ(got[8 * 7], -7);  // lane 8 is not in the mask and has returned
  expect_no_fault();
}

TEST_P(CudaEmulation, CountedBarriers) {
  for (int limit : {0, 40, 70}) {
    const std::vector<int> got = counted_barriers(70, limit);
    for (int t = 0; t < 70; ++t) {
      EXPECT_EQ(got[t * 3], limit);
      EXPECT_EQ(got[t * 3 + 1], limit == 70);
      EXPECT_EQ(got[t * 3 + 2], limit > 0);
    }
  }
  expect_no_fault();
}

TEST_P(CudaEmulation, Atomics) {
  const std::vector<unsigned> expected{2016, 63, 0, 7, 9, 0, ~0u, 0, 4, 6};
  EXPECT_EQ(atomics(), expected);
  EXPECT_EQ(atomic_sum(1000), 500.0f);
  expect_no_fault();
}

TEST_P(CudaEmulation, SharedMemoryIsFreshInEachBlock) {
  EXPECT_EQ(fresh_shared_memory(3), std::vector<uint32_t>(24, ~0u));
  expect_no_fault();
}

TEST_P(CudaEmulation, BarrierOrdersSharedMemory) {
  std::vector<float> expected(1024);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<float>(1023 - i);
  EXPECT_EQ(reverse(1024, 4096), expected);
  expect_no_fault();
}

TEST_P(CudaEmulation, TypesAndArithmetic) {
  EXPECT_EQ(vectors(), (std::vector<float>{10, 11, 251, 1616, 1204}));
  EXPECT_EQ(arithmetic(),
            (std::vector<int>{4, 31, 4, 2, -2, 0x7fffffff, 0, 10, 2, 0x3f800000, 3, 10, 1}));
  EXPECT_EQ(template_commas(), (std::vector<int>{3, 4}));
  EXPECT_EQ(constant_memory(), (std::vector<int>{11, 21, 31, 10, 20, 30}));
  expect_no_fault();
}

TEST_P(CudaEmulation, FaultsOfWarpOperations) {
  mask_without_caller();
  expect_fault(Fault::kLaneOutsideMask, "not in its own mask 0x0000ffff");
  emulation::reset();
  read_inactive_lane();
  expect_fault(Fault::kInactiveSource, "reads lane 5, which takes no part (mask 0x0000000f)");
  emulation::reset();
  mixed_operations();
  expect_fault(Fault::kMixedWarpOperation, "another operation with the same mask 0xffffffff");
}

TEST_P(CudaEmulation, BarriersAtTwoLines) {
  barriers_at_two_lines();
  expect_fault(Fault::kDivergentBarrier, "meet at different barriers");
}

TEST_P(CudaEmulation, DeadlockIsReportedAndSticky) {
  barrier_never_reached();
  expect_fault(Fault::kDeadlock, "waits in __syncthreads at semantics.cu:");
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  int* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 4), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 4), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST_P(CudaEmulation, ReturnedThreadsAndBarriers) {
  exited_before_barrier();
  expect_no_fault();
  emulation::Options strict = emulation::options();
  strict.exited_threads_are_faults = true;
  emulation::set_options(strict);
  exited_before_barrier();
  expect_fault(Fault::kDivergentBarrier, "5 of 40 threads");
}

TEST_P(CudaEmulation, LimitsOfLaunches) {
  const auto error = [](dim3 grid, dim3 block, size_t shared = 0) {
    launch_empty(grid, block, shared);
    return cudaGetLastError();
  };
  EXPECT_EQ(error(1, 1024), cudaSuccess);
  EXPECT_EQ(error(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error(1, dim3(32, 33)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error(1, dim3(1, 1, 64)), cudaSuccess);
  EXPECT_EQ(error(1, dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error(0, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error(1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error(dim3(1, 65536), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error(dim3(1, 1, 65536), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error(1, 1, 48 * 1024), cudaSuccess);
  EXPECT_EQ(error(1, 1, 48 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow_shared(64 * 1024), cudaSuccess);
  EXPECT_EQ(error(1, 1, 64 * 1024), cudaSuccess);
  EXPECT_EQ(error(1, 1, 64 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow_shared(164 * 1024), cudaErrorInvalidValue);
  cudaGetLastError();
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaEmulation,
                         testing::Values(ThreadOrder::kForward, ThreadOrder::kBackward,
                                         ThreadOrder::kRandom),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(CudaEmulationOrder, ForwardBackwardAndRandom) {
  emulation::reset();
  std::vector<int> forward(80);
  std::iota(forward.begin(), forward.end(), 0);
  use(ThreadOrder::kForward);
  EXPECT_EQ(tickets(2, 40), forward);
  use(ThreadOrder::kBackward);
  EXPECT_EQ(tickets(2, 40), std::vector<int>(forward.rbegin(), forward.rend()));
  use(ThreadOrder::kRandom, 1);
  const std::vector<int> first = tickets(2, 40);
  EXPECT_NE(first, forward);
  EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), 80u);
  EXPECT_EQ(tickets(2, 40), first);
  use(ThreadOrder::kRandom, 2);
  EXPECT_NE(tickets(2, 40), first);
  emulation::set_options({});
}

TEST(CudaEmulationOrder, Counters) {
  emulation::reset();
  tickets(3, 50);
  const emulation::Counters counters = emulation::counters();
  EXPECT_EQ(counters.launches, 1);
  EXPECT_EQ(counters.threads, 150);
  EXPECT_EQ(counters.switches, 6);  // into and out of one fibre for each block
  EXPECT_EQ(counters.accesses, 0);
  EXPECT_EQ(counters.allocations, 0);
}

}  // namespace
}  // namespace kinet
