// ctest: labels=unit,core gpu
// The convolution's CUDA kernels against the CPU: every engine, tile and kind of multiplication; in
// the host emulation in three orders of threads.
// cuda: conv_columns conv_depthwise conv_implicit conv_sums errors gemm
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "cuda/conv_columns.h"
#include "cuda/conv_depthwise.h"
#include "cuda/conv_engine.h"
#include "cuda/conv_sums.h"
#include "cuda/mma.h"
#include "src/base/check.h"
#include "tests/cuda_conv_cases.h"
#include "tests/cuda_test_memory.h"

namespace kinet {
namespace {

#ifdef KINET_TEST_ON_GPU
constexpr bool kChecked = false;
#else
constexpr bool kChecked = KINET_EMULATION_CHECKED != 0;
#endif

class CudaConvolution : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) GTEST_SKIP() << "no device: " << cudaGetErrorString(code);
  }
};

// One way to compute all passes.
struct Way {
  std::string name;
  ConvEngine engine = ConvEngine::kImplicit;
  ImplicitOptions options;
};

struct Results {
  std::vector<float> y, dx, dw, db;
  bool operator==(const Results&) const = default;
};

size_t workspace_of(const Way& way, const ConvGeometry& g) {
  switch (way.engine) {
    case ConvEngine::kColumns:
      return columns_workspace_floats(g);
    case ConvEngine::kDepthwise:
      return depthwise_workspace_floats(g);
    default:
      return implicit_workspace_floats(g);
  }
}

struct Factors {
  const float *x, *weights;
};
void run_forward(const TestGpu& gpu, const Way& way, const ConvGeometry& g, const Factors& from,
                 const Ending& ending, float* y, float* workspace) {
  switch (way.engine) {
    case ConvEngine::kColumns:
      return columns_forward(gpu, g, from.x, from.weights, ending, y, workspace);
    case ConvEngine::kDepthwise:
      return cuda_depthwise_forward(gpu, g, from.x, from.weights, ending, y);
    default:
      return implicit_forward(gpu, g, way.options, from.x, from.weights, ending, y, workspace);
  }
}

enum class Operand { kNone, kX, kWeights, kBias, kDy, kY, kDx, kDw, kDb, kWorkspace, kSums };

// Everything lies in allocations of its own, exactly as long as it must be, but for `cut`, which is
// one value shorter.
Results run(const TestGpu& gpu, const Way& way, const ConvGeometry& g, const ConvData& data,
            Operand cut = Operand::kNone) {
  const auto given = [&](Operand operand, std::vector<float> values) {
    if (operand == cut) values.pop_back();
    return values;
  };
  const auto room = [&](Operand operand, size_t floats) { return floats - (operand == cut); };
  const DeviceFloats x(given(Operand::kX, data.x)), w(given(Operand::kWeights, data.weights));
  const DeviceFloats bias(given(Operand::kBias, data.bias)), dy(given(Operand::kDy, data.dy));
  DeviceFloats y(room(Operand::kY, data.y.size())), dx(room(Operand::kDx, data.x.size()));
  DeviceFloats dw(given(Operand::kDw, data.dw0)), db(given(Operand::kDb, data.db0));
  DeviceFloats workspace(room(Operand::kWorkspace, std::max<size_t>(workspace_of(way, g), 1)));
  DeviceFloats sums(
      room(Operand::kSums, bias_workspace_floats(g.images, g.outputs, g.window.outputs())));
  float* const ws = workspace.get();
  run_forward(gpu, way, g, {x.get(), w.get()}, bias.get(), y.get(), ws);
  switch (way.engine) {
    case ConvEngine::kColumns:
      columns_backward_data(gpu, g, dy.get(), w.get(), dx.get(), ws);
      columns_backward_weights(gpu, g, x.get(), dy.get(), dw.get(), ws);
      break;
    case ConvEngine::kDepthwise:
      cuda_depthwise_backward_data(gpu, g, dy.get(), w.get(), dx.get());
      cuda_depthwise_backward_weights(gpu, g, x.get(), dy.get(), dw.get(), ws);
      break;
    default:
      implicit_backward_data(gpu, g, way.options, dy.get(), w.get(), dx.get(), ws);
      implicit_backward_weights(gpu, g, way.options, x.get(), dy.get(), dw.get(), ws);
  }
  backward_bias(gpu, g.images, g.outputs, g.window.outputs(), dy.get(), db.get(), sums.get());
  return {y.values(), dx.values(), dw.values(), db.values()};
}

// The CPU's results, in every order of threads, the same bits in each, and no report.
template <class Round>
void expect_agreement(const CudaConvCase& c, const Way& way, const Round& round) {
  const ConvData data(c.g, round);
  Results first;
  for (const std::string& order : thread_orders()) {
    SCOPED_TRACE(c.name + ", " + way.name + ", threads " + order);
    const TestGpu gpu(order);
    const Results r = run(gpu, way, c.g, data);
    EXPECT_EQ(differences(r.y, data.y), "") << "y";
    EXPECT_EQ(differences(r.dx, data.dx), "") << "dx";
    EXPECT_EQ(differences(r.dw, data.dw), "") << "dw";
    EXPECT_EQ(differences(r.db, data.db), "") << "db";
    EXPECT_EQ(device_reports(), "");
    if (order == thread_orders().front()) first = r;
    EXPECT_TRUE(r == first) << "not the same bits as with threads in the first order";
  }
}

float as_is(float value) { return value; }

const Way kSmall{"small tile", ConvEngine::kImplicit, {ConvMath::kFloat32, ConvTile::kSmall}};
const Way kNarrow{"narrow tile", ConvEngine::kImplicit, {ConvMath::kFloat32, ConvTile::kNarrow}};
const Way kLarge{"large tile", ConvEngine::kImplicit, {ConvMath::kFloat32, ConvTile::kLarge}};
const Way kColumns{"columns", ConvEngine::kColumns, {}};
const Way kDepthwise{"depthwise", ConvEngine::kDepthwise, {}};

std::vector<Way> ways(const ConvGeometry& g) {
  std::vector<Way> all{kNarrow, kSmall, kLarge, kColumns};
  if (g.group_channels() == 1) all.push_back(kDepthwise);
  return all;
}

TEST_F(CudaConvolution, EqualsTheCpuOnSmallShapes) {
  for (const CudaConvCase& c : small_conv_cases()) {
    for (const Way& way : ways(c.g)) expect_agreement(c, way, as_is);
  }
}

// ReLU where results are stored: what ReLU makes of them afterwards, bit for bit.
TEST_F(CudaConvolution, EndsWithRelu) {
  for (const CudaConvCase& c : small_conv_cases()) {
    const ConvData data(c.g, as_is);
    const TestGpu gpu;
    const DeviceFloats x(data.x), w(data.weights), bias(data.bias);
    for (const Way& way : ways(c.g)) {
      for (const float* b : {bias.get(), static_cast<const float*>(nullptr)}) {
        SCOPED_TRACE(c.name + ", " + way.name + (b != nullptr ? "" : ", no bias"));
        DeviceFloats workspace(std::max<size_t>(workspace_of(way, c.g), 1));
        std::vector<float> plain, ended;
        for (const bool relu : {false, true}) {
          DeviceFloats y(data.y.size());
          run_forward(gpu, way, c.g, {x.get(), w.get()}, {b, relu}, y.get(), workspace.get());
          (relu ? ended : plain) = y.values();
        }
        for (float& value : plain) value = value > 0 ? value : 0 * value;
        EXPECT_EQ(std::memcmp(plain.data(), ended.data(), plain.size() * sizeof(float)), 0);
        EXPECT_EQ(device_reports(), "");
      }
    }
  }
}

#if !defined(KINET_TEST_ON_GPU) && KINET_EMULATION_CHECKED

// Every way goes to the end of each of its operands, and check mode sees when that is too far.
TEST_F(CudaConvolution, AnOperandThatIsTooShortIsReported) {
  const CudaConvCase plain = square_conv("plain", 2, 3, 7, 5, 1, 3);
  const CudaConvCase depthwise = square_conv("depthwise", 2, 5, 7, 5, 5, 3, 1, 1);
  for (const auto& [c, way] :
       {std::pair{plain, kSmall}, {plain, kColumns}, {depthwise, kDepthwise}}) {
    const ConvData data(c.g, as_is);
    for (const Operand cut :
         {Operand::kX, Operand::kWeights, Operand::kBias, Operand::kDy, Operand::kY, Operand::kDx,
          Operand::kDw, Operand::kDb, Operand::kWorkspace, Operand::kSums}) {
      const TestGpu gpu;
      try {
        run(gpu, way, c.g, data, cut);
      } catch (const Error&) {  // a device does not go on either
      }
      EXPECT_NE(device_reports(), "") << way.name << ", operand " << static_cast<int>(cut);
      emulation::reset();
    }
  }
}

#endif

TEST_F(CudaConvolution, EqualsTheCpuOnSeveralTilesAndSlices) {
  if (kChecked) GTEST_SKIP() << "too large for check mode; mode fast runs it";
  for (const CudaConvCase& c : large_conv_cases()) {
    for (const Way& way : ways(c.g)) expect_agreement(c, way, as_is);
  }
}

// What tensor cores round to: their products of rounded values are exact.
#ifdef KINET_TEST_ON_GPU  // to_tf32 and to_bf16 are functions of the device there
float with_bits(float value, uint32_t (*change)(uint32_t)) {
  return std::bit_cast<float>(change(std::bit_cast<uint32_t>(value)));
}
float tf32(float value) {
  return with_bits(value, [](uint32_t bits) { return (bits + 0x1000U) & 0xffffe000U; });
}
float bf16(float value) {
  return with_bits(
      value, [](uint32_t bits) { return (bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U; });
}
#else
float tf32(float value) { return bits_float(to_tf32(value)); }
float bf16(float value) { return bits_float(to_bf16(value) << 16); }
#endif

// The plain variant of an mma is many shuffles: the large tile, which is the same code, once.
TEST_F(CudaConvolution, TensorCoreKernelsEqualTheCpuWithRoundedFactors) {
  for (const CudaConvCase& c :
       {square_conv("plain", 2, 3, 7, 5, 1, 3), square_conv("grouped", 2, 6, 5, 9, 3, 3, 2, 1),
        square_conv("deep", 1, 9, 4, 70, 1, 3, 1, 1)}) {
    for (const auto& [size, tile] : {std::pair{"narrow", ConvTile::kNarrow},
                                     {"small", ConvTile::kSmall},
                                     {"large", ConvTile::kLarge}}) {
      if (tile == ConvTile::kLarge && (kChecked || c.name != "plain")) continue;
      const auto way = [size = size, tile = tile](ConvMath math) {
        return Way{size, ConvEngine::kImplicit, {math, tile}};
      };
      expect_agreement(c, way(ConvMath::kTf32), tf32);
      expect_agreement(c, way(ConvMath::kBf16), bf16);
    }
  }
}

#ifndef KINET_TEST_ON_GPU

TEST_F(CudaConvolution, RoundsFactorsAsTensorCoresDo) {
  EXPECT_EQ(tf32(1.f + 0x1p-11f), 1.f + 0x1p-10f);  // ties away from zero
  EXPECT_EQ(tf32(-1.f - 0x1p-11f), -1.f - 0x1p-10f);
  EXPECT_EQ(tf32(1.f + 0x1p-12f), 1.f);
  EXPECT_EQ(bf16(1.f + 0x1p-8f), 1.f);  // ties to even
  EXPECT_EQ(bf16(1.f + 3 * 0x1p-8f), 1.f + 0x1p-6f);
  for (const float special : {INFINITY, -INFINITY, 0.f}) {
    EXPECT_EQ(tf32(special), special);
    EXPECT_EQ(bf16(special), special);
  }
  EXPECT_TRUE(std::isnan(tf32(NAN)));
  EXPECT_TRUE(std::isnan(bf16(NAN)));
}

#endif

// The rule of conv_engine.h.
TEST_F(CudaConvolution, EngineIsChosenByTheWrittenRule) {
  const auto chosen = [](const CudaConvCase& c, ConvPass pass, ConvMath math = ConvMath::kFloat32) {
    return choose_engine(c.g, pass, ConvEngine::kAuto, math);
  };
  const CudaConvCase narrow = square_conv("", 2, 64, 56, 64, 1, 3, 1, 1);
  const CudaConvCase wide = square_conv("", 2, 64, 14, 256, 1, 3, 1, 1);
  const CudaConvCase strided = square_conv("", 2, 64, 14, 64, 1, 3, 2, 1);
  EXPECT_EQ(chosen(narrow, ConvPass::kForward), ConvEngine::kImplicit);
  EXPECT_EQ(chosen(wide, ConvPass::kForward), ConvEngine::kColumns);
  EXPECT_EQ(chosen(wide, ConvPass::kWeights), ConvEngine::kColumns);
  EXPECT_EQ(chosen(wide, ConvPass::kData), ConvEngine::kImplicit);  // 64 rows
  EXPECT_EQ(chosen(wide, ConvPass::kForward, ConvMath::kTf32), ConvEngine::kImplicit);
  EXPECT_EQ(chosen(strided, ConvPass::kForward), ConvEngine::kImplicit);
  EXPECT_EQ(chosen(strided, ConvPass::kData), ConvEngine::kColumns);
  EXPECT_EQ(chosen(strided, ConvPass::kData, ConvMath::kBf16), ConvEngine::kColumns);
  EXPECT_EQ(chosen(square_conv("", 2, 64, 14, 64, 1, 1), ConvPass::kForward), ConvEngine::kColumns);
  EXPECT_EQ(chosen(square_conv("", 2, 64, 14, 64, 64, 3), ConvPass::kForward),
            ConvEngine::kDepthwise);
  EXPECT_EQ(choose_engine(wide.g, ConvPass::kForward, ConvEngine::kImplicit, ConvMath::kFloat32),
            ConvEngine::kImplicit);
  // 9 taps of 2^28 pixels: columns of more than 2^29 floats for a single image.
  const CudaConvCase huge = square_conv("", 1, 1, 16384, 1, 1, 3, 1, 1);
  EXPECT_TRUE(conv_fits(huge.g));
  EXPECT_EQ(choose_engine(huge.g, ConvPass::kForward, ConvEngine::kColumns, ConvMath::kFloat32),
            ConvEngine::kImplicit);
  EXPECT_FALSE(conv_fits(square_conv("", 1, 1, 65536, 1, 1, 3, 1, 1).g));
}

}  // namespace
}  // namespace kinet
