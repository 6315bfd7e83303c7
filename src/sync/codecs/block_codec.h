// What codecs have in common that write a number of bits a value and one scale a block.
//
// Layout, block after block:  scale (float), then 32 / bits values to a word, the first in the low
//   bits; the last word of a block is filled up with zeros.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/sync/codec.h"

namespace kinet {

class BlockCodec : public PushCodec {
 public:
  explicit BlockCodec(size_t bits) : bits_(bits) {}

  void set_up(const CodecSetup& setup) override {
    PushCodec::set_up(setup);
    words_ = 0;
    for (const CodecBlock& b : setup.blocks) words_ += 1 + code_words(b.count);
  }
  size_t encoded_bytes(int64_t) const override { return words_ * sizeof(uint32_t); }

  void encode(int64_t number, std::span<const float> in, std::span<std::byte> out) override {
    auto* at = reinterpret_cast<uint32_t*>(out.data());
    for (const CodecBlock& b : setup().blocks) {
      const std::span<uint32_t> codes(at + 1, code_words(b.count));
      std::fill(codes.begin(), codes.end(), 0U);
      *at = std::bit_cast<uint32_t>(encode_block(number, b, in.subspan(b.offset, b.count), codes));
      at += 1 + codes.size();
    }
  }

  void decode(int64_t, std::span<const std::byte> in, std::span<float> out) const override {
    const auto* at = reinterpret_cast<const uint32_t*>(in.data());
    size_t done = 0;
    for (const CodecBlock& b : setup().blocks) {
      std::fill(out.begin() + static_cast<int64_t>(done),
                out.begin() + static_cast<int64_t>(b.offset), 0.0F);
      const std::span<const uint32_t> codes(at + 1, code_words(b.count));
      decode_block(std::bit_cast<float>(*at), codes, out.subspan(b.offset, b.count));
      at += 1 + codes.size();
      done = b.offset + b.count;
    }
    std::fill(out.begin() + static_cast<int64_t>(done), out.end(), 0.0F);
  }

 protected:
  // Writes the codes, which are zeros at first; returns the scale.
  virtual float encode_block(int64_t number, const CodecBlock& block, std::span<const float> in,
                             std::span<uint32_t> codes) = 0;
  virtual void decode_block(float scale, std::span<const uint32_t> codes,
                            std::span<float> out) const = 0;

 private:
  size_t code_words(size_t count) const { return (count * bits_ + 31) / 32; }

  const size_t bits_;
  size_t words_ = 0;
};

}  // namespace kinet
