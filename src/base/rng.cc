#include "src/base/rng.h"

#include <cmath>
#include <numbers>

namespace kinet {
namespace {

// Finaliser of SplitMix64 (Steele et al. 2014): mixes all bits of a word.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

uint64_t hash_name(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char c : name) h = (h ^ c) * 0x100000001b3ull;
  return mix(h);
}

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, uint64_t key) {
  uint32_t k0 = low(key), k1 = high(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xd2511f53ull * c[0];
    const uint64_t p1 = 0xcd9e8d57ull * c[2];
    c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

uint64_t stream_prefix(RngPurpose purpose, uint64_t a) {
  return mix(mix(static_cast<uint64_t>(purpose)) ^ a);
}

Rng::Rng(uint64_t seed, RngPurpose purpose, uint64_t a, uint64_t b, uint64_t c)
    : seed_(seed), stream_(mix(mix(stream_prefix(purpose, a) ^ b) ^ c)) {}

std::array<uint32_t, 4> Rng::block(uint64_t index) const {
  return philox4x32({low(index), high(index), low(stream_), high(stream_)}, seed_);
}

uint32_t Rng::at(uint64_t index) const { return block(index / 4)[index % 4]; }

uint32_t Rng::next_u32() {
  if (used_ == 4) {
    words_ = block(next_block_++);
    used_ = 0;
  }
  return words_[used_++];
}

uint64_t Rng::next_u64() {
  const uint64_t first = next_u32();
  return first | static_cast<uint64_t>(next_u32()) << 32;
}

uint64_t Rng::below(uint64_t n) {
  const uint64_t reject = (0 - n) % n;  // 2^64 mod n: the part of the range that would bias
  for (;;) {
    const uint64_t x = next_u64();
    if (x >= reject) return x % n;
  }
}

float Rng::uniform() { return static_cast<float>(next_u32() >> 8) * 0x1p-24f; }

float Rng::uniform(float low, float high) { return low + (high - low) * uniform(); }

float Rng::gaussian() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double u = (next_u32() + 1.0) * 0x1p-32;  // (0, 1]: its logarithm is finite
  const double angle = 2 * std::numbers::pi * (next_u32() * 0x1p-32);
  const double radius = std::sqrt(-2 * std::log(u));
  spare_ = static_cast<float>(radius * std::sin(angle));
  has_spare_ = true;
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace kinet
