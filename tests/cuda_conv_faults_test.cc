// Faults planted into the matrix product of the convolution, one at a time: check mode names each.
// The kernel is the product's own; its operands and its result are what is spoilt.
// cuda: errors
#include <gtest/gtest.h>

#include <set>

#include "cuda/conv_gemm.h"
#include "cuda/conv_sums.h"
#include "cuda/emulation/control.h"
#include "tests/cuda_conv_cases.h"
#include "tests/cuda_test_memory.h"

namespace kinet {
namespace {

using emulation::Fault;

enum class Plant {
  kNone,
  kNoDepthBound,    // weights are read beyond the last row of depth
  kNoZeroFill,      // pixels outside the image leave shared memory as it was
  kOneHalf,         // the next slab overwrites the one that is being multiplied
  kOneColumnMore,   // one output pixel too many
  kVectorAnyway,    // 128-bit stores into rows that do not begin at multiples of 16 bytes
  kOneSliceForAll,  // all slices of a divided sum store to the same place
};

template <Plant kPlant>
struct PlantedGather : WeightedGather<ConvPatches> {
  template <class Tile>
  struct Loader : WeightedGather<ConvPatches>::template Loader<Tile> {
    using Base = WeightedGather<ConvPatches>::Loader<Tile>;
    using Base::Base;

    template <int kLda, int kLdb>
    __device__ void load(int begin, float (*a)[kLda], float (*b)[kLdb]) const {
      if constexpr (kPlant == Plant::kOneHalf) {
        const bool second = begin / kLoadDepth % 2 != 0;
        Base::load(begin, second ? a - kLoadDepth : a, second ? b - kLoadDepth : b);
      } else if constexpr (kPlant == Plant::kNoDepthBound) {
        Base::load(begin, a, b);
        const int depth = begin + this->weight_k, m = this->row + this->weight_row;
        copy_float4_async(&a[this->weight_k][this->weight_row],
                          this->weights + depth * this->from.row_stride + m,
                          m < this->from.row_stride);
      } else if constexpr (kPlant == Plant::kNoZeroFill) {
        load_inside(begin, a, b);
      } else {
        Base::load(begin, a, b);
      }
    }

    template <int kLda, int kLdb>
    __device__ void load_inside(int begin, float (*a)[kLda], float (*b)[kLdb]) const {
      this->load_weights(begin, a);
      const ConvPoint tap = this->from.gather.tap(begin + this->k);
      for (int i = 0; i < Base::kColumnsEach; ++i) {
        int offset;
        if (!this->from.gather.locate(tap, this->pixels[i], &offset)) continue;
        b[this->k][this->column + i * Base::kAcross] = this->base[offset];
      }
    }
  };
};

// Forward of a small convolution in two slices, each with a result of its own.
template <Plant kPlant>
std::vector<emulation::Report> run_planted() {
  emulation::reset();
  const TestGpu gpu;
  const ConvGeometry g = square_conv("", 2, 3, 7, 8, 1, 3, 1, 1).g;
  const ConvShape s = ConvShape::of(g);
  const int depth = static_cast<int>(g.depth()), slice_depth = 16, slices = 2;  // 27 of depth
  const DeviceFloats x(random_floats(g.images * g.input(), 1));
  const DeviceFloats packed(random_floats(g.weights(), 2));
  DeviceFloats y(static_cast<size_t>(slices * g.images * g.output()));

  PlantedGather<kPlant> operands{{packed.get(), s.outputs, ConvPatches(s, x.get())}};
  ConvResult result(y.get(), nullptr, s.outputs, s.images, s.pixels(), s.outputs * s.pixels());
  result.slice_floats = g.images * g.output();
  if (kPlant == Plant::kOneColumnMore) result.data += result.slice_floats, ++result.count;
  if (kPlant == Plant::kOneColumnMore) result.slice_floats = 0;
  if (kPlant == Plant::kVectorAnyway) result.vector = true;
  if (kPlant == Plant::kOneSliceForAll) result.slice_floats = 0;
  EXPECT_EQ(depth, 27);
  const dim3 grid(static_cast<unsigned>(divide_up(result.count, SmallTile::kColumns)), 1,
                  kPlant == Plant::kOneColumnMore ? 1 : slices);
  KINET_LAUNCH((conv_gemm_kernel<Float32Math<SmallTile>, PlantedGather<kPlant>>), grid,
               SmallTile::kThreads, 0, static_cast<const Gpu&>(gpu).stream, operands, result,
               GemmParts{1, 0, slice_depth, 1});
  cudaDeviceSynchronize();
  cudaGetLastError();
  return emulation::take_reports();
}

std::set<Fault> faults_of(const std::vector<emulation::Report>& reports) {
  std::set<Fault> faults;
  for (const emulation::Report& report : reports) faults.insert(report.fault);
  return faults;
}

#if KINET_EMULATION_CHECKED

template <Plant kPlant>
void expect_fault(Fault fault) {
  const std::vector<emulation::Report> reports = run_planted<kPlant>();
  EXPECT_TRUE(faults_of(reports).contains(fault)) << "no report of " << emulation::name_of(fault)
                                                  << "; reported: " << emulation::text_of(reports);
  emulation::reset();
}

TEST(CudaConvFaults, SoundKernelIsNotReported) {
  EXPECT_EQ(emulation::text_of(run_planted<Plant::kNone>()), "");
}

TEST(CudaConvFaults, EachPlantedFaultIsNamed) {
  expect_fault<Plant::kNoDepthBound>(Fault::kOutOfBounds);
  expect_fault<Plant::kNoZeroFill>(Fault::kUninitialised);
  expect_fault<Plant::kOneHalf>(Fault::kRace);
  expect_fault<Plant::kOneColumnMore>(Fault::kOutOfBounds);
  expect_fault<Plant::kVectorAnyway>(Fault::kMisaligned);
  expect_fault<Plant::kOneSliceForAll>(Fault::kRace);
}

#else

// Fast mode checks no accesses; that the planted kernels build and the sound one runs is all here.
TEST(CudaConvFaults, SoundKernelRuns) {
  EXPECT_TRUE(faults_of(run_planted<Plant::kNone>()).empty());
}

#endif

}  // namespace
}  // namespace kinet
