// Codecs of pushes against numbers computed by hand: sizes, equations, what is remembered.
// ctest: labels=unit,core,smoke timeout=60
#include "src/sync/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/rng.h"

namespace kinet {
namespace {

class Pushed {
 public:
  Pushed(const std::string& name, const CodecSetup& setup)
      : codec(CodecRegistry::instance().find(name)->make()), floats_(setup.floats) {
    codec->set_up(setup);
  }
  // What arrives of push number `number`.
  std::vector<float> operator()(const std::vector<float>& in, int64_t number = 0) {
    bytes.assign(codec->encoded_bytes(number), std::byte{0xFF});
    codec->encode(number, in, bytes);
    std::vector<float> out(floats_, std::numeric_limits<float>::quiet_NaN());
    codec->decode(number, bytes, out);
    return out;
  }
  std::unique_ptr<PushCodec> codec;
  std::vector<std::byte> bytes;

 private:
  size_t floats_;
};

CodecSetup slice(size_t floats, std::vector<CodecBlock> blocks = {}) {
  CodecSetup s;
  s.floats = floats;
  s.blocks = blocks.empty() ? std::vector<CodecBlock>{{0, floats}} : std::move(blocks);
  return s;
}

std::vector<float> numbers(size_t count, uint64_t which) {
  Rng rng(5, RngPurpose::kTest, which);
  std::vector<float> out(count);
  for (float& v : out) v = rng.gaussian();
  return out;
}

using Floats = std::vector<float>;

// ---- sizes --------------------------------------------------------------------------------------

TEST(Codec, SizesAreThoseOnPaper) {
  CodecSetup s = slice(1000, {{0, 500}, {512, 33}, {560, 440}});
  s.ratio = 0.01;
  const auto bytes = [&](const char* name, int64_t number = 0) {
    return Pushed(name, s).codec->encoded_bytes(number);
  };
  EXPECT_EQ(bytes("TOPK"), 10 * 8u);
  EXPECT_EQ(bytes("SIGN"), 3 * 4 + (16 + 2 + 14) * 4u);
  EXPECT_EQ(bytes("TERNARY"), 3 * 4 + (32 + 3 + 28) * 4u);
  EXPECT_EQ(bytes("FP16"), 3 * 4 + (250 + 17 + 220) * 4u);
  s.ratio = 0.0101;
  EXPECT_EQ(bytes("TOPK"), 11 * 8u);  // rounded up
  s.ratio = 1e-6;
  EXPECT_EQ(bytes("TOPK"), 8u);  // one at least
  s.ratio = 1;
  EXPECT_EQ(bytes("TOPK"), 8000u);
}

TEST(Codec, WarmUpFallsByQuartersAndEndsAtTheRatio) {
  CodecSetup s = slice(10000);
  s.ratio = 0.001;
  s.warmup = 7;
  const Pushed topk("TOPK", s);
  const auto sent = [&](int64_t number) { return topk.codec->encoded_bytes(number) / 8; };
  EXPECT_EQ(sent(0), 2500u);
  EXPECT_EQ(sent(6), 2500u);
  EXPECT_EQ(sent(7), 625u);
  EXPECT_EQ(sent(14), 157u);
  EXPECT_EQ(sent(21), 40u);
  EXPECT_EQ(sent(28), 10u);
  EXPECT_EQ(sent(1000000), 10u);
  EXPECT_EQ(topk.codec->most_bytes(), 2500 * 8u);
  // Servers know 24 bits of the number.
  EXPECT_EQ(sent((int64_t{1} << 24) + 1000), sent(1000));
}

// ---- TOPK ---------------------------------------------------------------------------------------

TEST(Codec, TopKSendsTheLargestAndKeepsTheRest) {
  CodecSetup s = slice(5);
  s.ratio = 0.4;
  Pushed topk("TOPK", s);
  EXPECT_EQ(topk({1, -5, 2, 3, 0}), (Floats{0, -5, 0, 3, 0}));
  // 1 and 2 have stayed. 1+1, 4, 2+1, 1, 0: what was sent is 0 before.
  EXPECT_EQ(topk({1, 4, 1, 1, 0}), (Floats{0, 4, 3, 0, 0}));
  EXPECT_EQ(topk({0, 0, 0, 0, 0}), (Floats{2, 0, 0, 1, 0}));
  EXPECT_EQ(topk({1, 1, 1, 1, 1}), (Floats{1, 1, 0, 0, 0}));  // of equal ones the first
}

// u = m u + g, z += u, by hand: m = 1/2, g = (4, 1, 0) each time, one of three is sent.
TEST(Codec, MomentumIsCorrectedAndMasked) {
  CodecSetup s = slice(3);
  s.ratio = 0.3;
  s.momentum = 0.5F;
  Pushed topk("TOPK", s);
  EXPECT_EQ(topk({4, 1, 0}), (Floats{4, 0, 0}));      // u = (0, 1, 0)    z = (0, 1, 0)
  EXPECT_EQ(topk({2, 1, 0}), (Floats{0, 2.5F, 0}));   // u = (2, 1.5>0)   z = (2, 2.5>0)
  EXPECT_EQ(topk({4, 1, 0}), (Floats{7, 0, 0}));      // u = (5, 1)       z = (7, 1)
  EXPECT_EQ(topk({0, 0, -1}), (Floats{0, 1.5F, 0}));  // u = (0, .5, -1)  z = (0, 1.5, -1)
}

TEST(Codec, NesterovsFormIsThatOfItsPaper) {
  CodecSetup s = slice(2);
  s.ratio = 0.5;
  s.momentum = 0.5F;
  s.nesterov = true;
  Pushed topk("TOPK", s);
  // u = (2, 1), z = u + g = (6, 3)
  EXPECT_EQ(topk({4, 2}), (Floats{6, 0}));
  // u = 0.5 ((0, 1) + (1, 1)) = (0.5, 1), z = (1.5, 3 + 2)
  EXPECT_EQ(topk({1, 1}), (Floats{0, 5}));
}

// With everything sent each time nothing is left but plain gradients: masking cuts the momentum.
TEST(Codec, TopKOfAllIsTheGradient) {
  CodecSetup s = slice(200);
  s.ratio = 1;
  s.momentum = 0.9F;
  Pushed topk("TOPK", s);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(topk(numbers(200, i)), numbers(200, i));
}

// ---- SIGN ---------------------------------------------------------------------------------------

TEST(Codec, SignSendsTheMeanOfEachBlockAndKeepsTheError) {
  Pushed sign("SIGN", slice(8, {{0, 3}, {4, 2}}));
  // Blocks of means 2 and 6; floats 3, 6 and 7 are padding. Errors: (-1, 2-2=0, 1), (2, 2).
  EXPECT_EQ(sign({1, -2, 3, 9, 8, -4, 9, 9}), (Floats{2, -2, 2, 0, 6, -6, 0, 0}));
  // p = (-1, 0, 1) and (2, 2)
  const Floats second = sign({0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_FLOAT_EQ(second[0], -2.0F / 3);
  EXPECT_FLOAT_EQ(second[1], 2.0F / 3);  // sign(0) = 1
  EXPECT_FLOAT_EQ(second[2], 2.0F / 3);
  EXPECT_EQ(second[4], 2);
  EXPECT_EQ(second[5], 2);
}

// ---- with a memory ------------------------------------------------------------------------------

// Sum of what was sent + residual = sum of what was given; pushes of zeros bring the residual out.
TEST(Codec, TopKLosesNothing) {
  constexpr size_t kFloats = 300;
  CodecSetup s = slice(kFloats);
  s.ratio = 0.05;
  Pushed topk("TOPK", s);
  std::vector<double> given(kFloats, 0), sent(kFloats, 0);
  for (uint64_t i = 0; i < 70; ++i) {
    const Floats g = i < 50 ? numbers(kFloats, i) : Floats(kFloats, 0.0F);
    const Floats q = topk(g, static_cast<int64_t>(i));
    for (size_t j = 0; j < kFloats; ++j) {
      given[j] += g[j];
      sent[j] += q[j];
    }
    double missing = 0;
    for (size_t j = 0; j < kFloats; ++j) missing += std::abs(given[j] - sent[j]);
    if (i == 49) {
      EXPECT_GT(missing, 100);  // or the test says nothing
    }
  }
  for (size_t j = 0; j < kFloats; ++j) ASSERT_NEAR(sent[j], given[j], 1e-5) << j;
}

// The recurrence e = p - q in double precision: sent + e = given, to rounding.
TEST(Codec, SignLosesNothing) {
  constexpr size_t kFloats = 64;
  Pushed sign("SIGN", slice(kFloats));
  std::vector<double> e(kFloats, 0);
  for (uint64_t i = 0; i < 30; ++i) {
    const Floats g = numbers(kFloats, i), q = sign(g);
    double mean = 0;
    for (size_t j = 0; j < kFloats; ++j) mean += std::abs(g[j] + e[j]) / kFloats;
    for (size_t j = 0; j < kFloats; ++j) {
      const double p = g[j] + e[j];
      ASSERT_NEAR(q[j], std::abs(p) < 1e-5 ? q[j] : std::copysign(mean, p), 1e-4) << i;
      e[j] = p - q[j];
    }
  }
}

// ---- TERNARY ------------------------------------------------------------------------------------

TEST(Codec, TernaryIsUnbiased) {
  Pushed ternary("TERNARY", slice(6));
  const Floats g{0.5F, -1, 0, 0.1F, -0.25F, 0.9F};
  std::vector<double> mean(6, 0);
  constexpr int kTimes = 20000;
  for (int i = 0; i < kTimes; ++i) {
    const Floats q = ternary(g, i);
    for (size_t j = 0; j < 6; ++j) {
      ASSERT_TRUE(q[j] == 0 || q[j] == std::copysign(1.0F, g[j]));
      mean[j] += q[j] / kTimes;
    }
  }
  // Standard error: sqrt(|g| (1 - |g|) / 20000) <= 0.0036
  for (size_t j = 0; j < 6; ++j) EXPECT_NEAR(mean[j], g[j], 0.015) << j;
  EXPECT_NEAR(mean[1], -1, 1e-6);  // the largest is always sent
}

TEST(Codec, TernaryDrawsGoByPushWorkerAndSeed) {
  const Floats g = numbers(500, 1);
  CodecSetup s = slice(500);
  Pushed one("TERNARY", s), same("TERNARY", s);
  EXPECT_EQ(one(g, 3), same(g, 3));
  EXPECT_NE(one(g, 3), one(g, 4));
  s.worker = 1;
  EXPECT_NE(Pushed("TERNARY", s)(g, 3), one(g, 3));
  s.worker = 0;
  s.seed = 9;
  EXPECT_NE(Pushed("TERNARY", s)(g, 3), one(g, 3));
}

TEST(Codec, TernaryClipsAtDeviationsOfTheBlock) {
  CodecSetup s = slice(100, {{0, 50}, {50, 50}});
  s.deviations = 2.5;
  Floats g(100, 0.0F);
  g[0] = 10;                                        // sigma = 10 / sqrt(50)
  for (size_t i = 50; i < 100; ++i) g[i] = -0.01F;  // 2.5 sigma is above the largest
  const Floats q = Pushed("TERNARY", s)(g);
  EXPECT_FLOAT_EQ(q[0], static_cast<float>(2.5 * 10 / std::sqrt(50.0)));
  for (size_t i = 50; i < 100; ++i) EXPECT_EQ(q[i], -0.01F);
  EXPECT_EQ(Pushed("TERNARY", slice(4))({0, 0, 0, 0}), Floats(4, 0.0F));
}

// ---- FP16 ---------------------------------------------------------------------------------------

TEST(Codec, HalvesAreTheNearest) {
  // Largest 1: s = 2^-14, in [1/2, 1) multiples of 2^-11, ties to even.
  Pushed half("FP16", slice(6));
  const Floats in{1, 0.5F + 0x1p-12F, 0.5F + 3 * 0x1p-12F, -0.1F, 0x1p-40F, 0};
  const Floats q = half(in);
  EXPECT_EQ(q[0], 1);
  EXPECT_EQ(q[1], 0.5F);
  EXPECT_EQ(q[2], 0.5F + 0x1p-10F);
  EXPECT_EQ(q[3], -0.0999755859375F);  // -1638 / 2^14
  EXPECT_EQ(q[4], 0);                  // 2^-26 of the scaled range: below half of 2^-24
  EXPECT_EQ(q[5], 0);
}

TEST(Codec, HalvesHaveNoRange) {
  for (const float size : {1e-30F, 1e-10F, 1.0F, 1e10F, 3e38F}) {
    Pushed half("FP16", slice(400));
    Floats g = numbers(400, 3);
    float largest = 0;
    for (const float v : g) largest = std::max(largest, std::abs(v));
    for (float& v : g) v *= size / largest;
    const Floats q = half(g);
    for (size_t i = 0; i < g.size(); ++i) {
      ASSERT_NEAR(q[i], g[i], std::abs(g[i]) * 0x1p-11F + size * 0x1p-38F) << size;
    }
  }
}

}  // namespace
}  // namespace kinet
