// ctest: labels=unit,core,smoke
// The counter-based generator: known answers, independence of draw order, and the usual statistics.
// Statistical bounds are 3.8 standard errors of 10,000 draws; the streams are fixed, so a test
// passes always or never.
#include "src/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace kinet {
namespace {

constexpr int kDraws = 10000;
constexpr double kErrors = 3.8;

// The published known-answer vectors of Philox4x32-10 (Random123, kat_vectors).
TEST(Rng, PhiloxKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, ~0ull),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822ull),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, RandomAccessIsTheSequence) {
  Rng sequence(5, RngPurpose::kDropout, 1, 2, 3);
  const Rng access = sequence;
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sequence.next_u32(), access.at(i)) << i;
  EXPECT_EQ(access.block(3)[2], access.at(14));
}

TEST(Rng, SameKeySameDraws) {
  Rng a(9, RngPurpose::kAugment, 4, 5, 6), b(9, RngPurpose::kAugment, 4, 5, 6);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.gaussian(), b.gaussian());
}

TEST(Rng, EveryPartOfTheKeyMatters) {
  std::set<uint32_t> first;
  first.insert(Rng(1, RngPurpose::kFiller, 1, 1, 1).at(0));
  first.insert(Rng(2, RngPurpose::kFiller, 1, 1, 1).at(0));
  first.insert(Rng(1, RngPurpose::kDropout, 1, 1, 1).at(0));
  first.insert(Rng(1, RngPurpose::kFiller, 2, 1, 1).at(0));
  first.insert(Rng(1, RngPurpose::kFiller, 1, 2, 1).at(0));
  first.insert(Rng(1, RngPurpose::kFiller, 1, 1, 2).at(0));
  // Words of the key do not stand in for each other.
  first.insert(Rng(1, RngPurpose::kFiller, 2, 1, 2).at(0));
  first.insert(Rng(1, RngPurpose::kFiller, 1, 2, 2).at(0));
  EXPECT_EQ(first.size(), 8u);
}

TEST(Rng, NamesHashToDifferentValues) {
  EXPECT_EQ(hash_name("conv1"), hash_name("conv1"));
  std::set<uint64_t> hashes;
  for (const char* name : {"", "a", "b", "ab", "ba", "conv1", "conv2", "conv11"}) {
    hashes.insert(hash_name(name));
  }
  EXPECT_EQ(hashes.size(), 8u);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

template <class Draw>
std::vector<double> draws(const Draw& draw) {
  std::vector<double> out(kDraws);
  for (double& v : out) v = draw();
  return out;
}

TEST(Rng, Uniform) {
  Rng rng(1, RngPurpose::kTest, 1);
  const auto x = draws([&] { return rng.uniform(1, 3); });
  double squares = 0;
  for (double v : x) {
    ASSERT_GE(v, 1);
    ASSERT_LT(v, 3);
    squares += (v - 2) * (v - 2);
  }
  const double std = 2 / std::sqrt(12.0);
  EXPECT_NEAR(mean_of(x), 2, kErrors * std / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, std * std, 0.02);
}

TEST(Rng, Gaussian) {
  Rng rng(1, RngPurpose::kTest, 2);
  const auto x = draws([&] { return rng.gaussian(); });
  const double error = kErrors / std::sqrt(kDraws);
  int above = 0, beyond_two = 0;
  double squares = 0;
  for (double v : x) {
    above += v > 0;
    beyond_two += std::abs(v) > 2;
    squares += v * v;
  }
  EXPECT_NEAR(mean_of(x), 0, error);
  EXPECT_NEAR(squares / kDraws, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(above / static_cast<double>(kDraws), 0.5, error / 2);
  EXPECT_NEAR(beyond_two / static_cast<double>(kDraws), 0.0455, error * 0.2085);
}

// Neighbouring draws, and draws of neighbouring streams, do not go together.
TEST(Rng, ProductsOfDrawsAverageToZero) {
  Rng rng(1, RngPurpose::kTest, 3), other(1, RngPurpose::kTest, 4);
  const double error = kErrors / std::sqrt(kDraws);
  EXPECT_NEAR(mean_of(draws([&] {
                const double first = rng.gaussian();
                return first * rng.gaussian();
              })),
              0, error);
  EXPECT_NEAR(mean_of(draws([&] { return rng.gaussian() * other.gaussian(); })), 0, error);
}

TEST(Rng, Bernoulli) {
  for (double p : {0.3, 0.9}) {
    Rng rng(1, RngPurpose::kTest, 5);
    const double share = mean_of(draws([&] { return rng.bernoulli(static_cast<float>(p)); }));
    EXPECT_NEAR(share, p, kErrors * std::sqrt(p * (1 - p) / kDraws));
  }
  Rng rng(1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(rng.bernoulli(0));
    EXPECT_TRUE(rng.bernoulli(1));
  }
}

TEST(Rng, BelowIsEven) {
  Rng rng(1, RngPurpose::kTest, 6);
  std::vector<int> counts(7);
  for (int i = 0; i < kDraws; ++i) ++counts[rng.below(7)];
  for (int count : counts) {
    EXPECT_NEAR(count, kDraws / 7.0, kErrors * std::sqrt(kDraws * (1 / 7.0) * (6 / 7.0)));
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rng.below(1), 0u);
}

}  // namespace
}  // namespace kinet
