// FP16: every value as a half (IEEE 754 binary16), under a power of two of its block.
//
// Equation, for each block of floats (a parameter, or what of it lies in the slice):
//   s = 2^(E - 14) with 2^E <= max |p| < 2^(E+1),   q = s half(p / s), to the nearest, ties to even
// So nothing overflows, and what is above 2^-29 of the largest value has an error of 2^-11 of
// itself at most. No memory. Size: half of the floats, and 4 bytes a block. Reference: loss scaling
// by powers of two: Micikevicius et al., "Mixed precision training", ICLR
//   2018. A scale a block in its place is ours.
#include <cmath>

#include "src/sync/codecs/block_codec.h"

namespace kinet {
namespace {

constexpr int kTop = 14;                // exponent of the largest value: the half's is 15
constexpr float kSubnormal = 0x1p-14F;  // halves below that are multiples of 2^-24

// The half nearest to `value`. REQUIRES: |value| < 65520
uint32_t half_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7FFFFFFFU;
  if (std::bit_cast<float>(magnitude) < kSubnormal) {
    // Added to 1/2, whose last bit is 2^-24, it is rounded as it has to be.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5F));
  }
  const uint32_t odd = magnitude >> 13 & 1U;
  return sign | ((magnitude - (112U << 23) + 0xFFFU + odd) >> 13);  // 112: 127 - 15
}

float float_of(uint32_t half) {
  const uint32_t sign = (half & 0x8000U) << 16, magnitude = half & 0x7FFFU;
  // Exponent and fraction in place, 112 too small; the product puts that right, also of subnormals.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

class HalfCodec : public BlockCodec {
 public:
  HalfCodec() : BlockCodec(16) {}
  static CodecType describe_type() { return {"FP16", "halves, scaled"}; }

 protected:
  float encode_block(int64_t, const CodecBlock&, std::span<const float> in,
                     std::span<uint32_t> codes) override {
    float largest = 0;
    for (const float value : in) largest = std::max(largest, std::abs(value));
    if (largest < 0x1p-100F) return 0;  // so that neither s nor 1/s is out of range
    const int exponent = std::ilogb(largest) - kTop;
    const float inverse = std::ldexp(1.0F, -exponent);
    for (size_t i = 0; i < in.size(); ++i) {
      codes[i / 2] |= half_of(in[i] * inverse) << (i % 2 * 16);
    }
    return std::ldexp(1.0F, exponent);
  }

  void decode_block(float scale, std::span<const uint32_t> codes,
                    std::span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = scale * float_of(codes[i / 2] >> (i % 2 * 16) & 0xFFFFU);
    }
  }
};

KINET_REGISTER_CODEC(HalfCodec);

}  // namespace
}  // namespace kinet
