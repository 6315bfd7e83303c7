// SIGN: one bit a value and a mean a block, with error feedback.
//
// Equation, for each block of d floats (a parameter, or what of it lies in the slice):
//   p = g + e,   s = |p|_1 / d,   q = s sign(p)  (sign(0) = 1),   e = p - q
// Size: 1/32 of the floats, and 4 bytes a block.
// Reference: Karimireddy, Rebjock, Stich and Jaggi, "Error feedback fixes SignSGD and other
//   gradient compression schemes", ICML 2019 (EF-signSGD); blocks after Zheng, Huang and Kwok,
//   "Communication-efficient distributed blockwise momentum SGD with error-feedback", NeurIPS 2019.
// Ours: the residual is one of gradients, not of steps (there p = eta g + e), as the servers apply
//   the rate; the same while the rate is constant. The servers sum what arrives, with their
//   momentum: no majority vote.
#include <cmath>

#include "src/math/vec.h"
#include "src/sync/codecs/block_codec.h"

namespace kinet {
namespace {

class SignCodec : public BlockCodec {
 public:
  SignCodec() : BlockCodec(1) {}
  static CodecType describe_type() { return {"SIGN", "a bit a value, with error feedback", true}; }
  int encode_passes() const override { return 6; }  // p and its mean; q and e

 protected:
  float encode_block(int64_t, const CodecBlock& block, std::span<const float> in,
                     std::span<uint32_t> codes) override {
    if (residual_.empty()) residual_.assign(setup().floats, 0.0F);
    const std::span<float> p = std::span<float>(residual_).subspan(block.offset, block.count);
    vec().add(static_cast<int64_t>(p.size()), in.data(), p.data(), p.data());
    double sum = 0;
    for (const float value : p) sum += std::abs(value);
    const auto scale = static_cast<float>(sum / static_cast<double>(p.size()));
    for (size_t i = 0; i < p.size(); ++i) {
      const bool negative = p[i] < 0;
      codes[i / 32] |= static_cast<uint32_t>(negative) << (i % 32);
      p[i] -= negative ? -scale : scale;
    }
    return scale;
  }

  void decode_block(float scale, std::span<const uint32_t> codes,
                    std::span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = (codes[i / 32] >> (i % 32) & 1U) != 0 ? -scale : scale;
    }
  }

 private:
  std::vector<float> residual_;  // e, of the slice
};

KINET_REGISTER_CODEC(SignCodec);

}  // namespace
}  // namespace kinet
