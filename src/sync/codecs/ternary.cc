// TERNARY: every value is -s, 0 or s, drawn so that its mean is right.
//
// Equation, for each block of floats (a parameter, or what of it lies in the slice):
//   g' = g clipped to +- c sigma, sigma^2 the mean of g^2       (c = compress_clip; 0: g' = g)
//   s = max |g'|,   q = s sign(g') b,   b = 1 with probability |g'| / s, else 0
//   so E q = g'.
// Size: 1/16 of the floats (2 bits a value: 0, s, -s), and 4 bytes a block.
// Reference: Wen, Xu, Yan, Wu, Wang, Chen and Li, "TernGrad: ternary gradients to reduce
//   communication in distributed deep learning", NIPS 2017; c = 2.5 is theirs.
// Ours: s is the worker's own (there the largest of all workers, which costs an exchange more);
//   sigma is taken about 0.
#include <cmath>

#include "src/base/rng.h"
#include "src/math/vec.h"
#include "src/sync/codecs/block_codec.h"

namespace kinet {
namespace {

class TernaryCodec : public BlockCodec {
 public:
  TernaryCodec() : BlockCodec(2) {}
  static CodecType describe_type() { return {"TERNARY", "-s, 0 or s, unbiased"}; }
  int encode_passes() const override { return 3; }  // sigma, s, q

 protected:
  float encode_block(int64_t number, const CodecBlock& block, std::span<const float> in,
                     std::span<uint32_t> codes) override {
    float scale = 0;
    for (const float value : in) scale = std::max(scale, std::abs(value));
    if (setup().deviations > 0) {
      const double squares = vec().sum_squares(static_cast<int64_t>(in.size()), in.data());
      const double sigma = std::sqrt(squares / static_cast<double>(in.size()));
      scale = std::min(scale, static_cast<float>(setup().deviations * sigma));
    }
    if (scale == 0) return 0;
    Rng rng(setup().seed, RngPurpose::kCompress, static_cast<uint64_t>(setup().worker),
            static_cast<uint64_t>(number), setup().begin + block.offset);
    for (size_t i = 0; i < in.size(); ++i) {
      // uniform() is below 1, so that a clipped value is sent for sure.
      if (!(rng.uniform() * scale < std::abs(in[i]))) continue;
      codes[i / 16] |= (in[i] < 0 ? 2U : 1U) << (i % 16 * 2);
    }
    return scale;
  }

  void decode_block(float scale, std::span<const uint32_t> codes,
                    std::span<float> out) const override {
    const float values[4] = {0, scale, -scale, 0};
    for (size_t i = 0; i < out.size(); ++i) out[i] = values[codes[i / 16] >> (i % 16 * 2) & 3U];
  }
};

KINET_REGISTER_CODEC(TernaryCodec);

}  // namespace
}  // namespace kinet
