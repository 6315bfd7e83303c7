// TOPK: the largest values of what a worker has gathered, and their places.
//
// Equation (Deep Gradient Compression), m the momentum, at a worker for each push:
//   u = m u + g,        z += u          (heavy ball)
//   u = m (u + g),      z += u + g      (Nesterov)
//   send z at the places of the largest |z|; there z = u = 0 (momentum factor masking)
// With m = 0: z += g, which is error feedback, with whatever momentum the servers have.
// Sent are exactly ceil(r n) of the slice's n floats, r = compress_ratio; in the warm-up, whose
//   stage i lasts compress_warmup pushes, r_i = max(r, 1/4^(i+1)): 25 %, 6.25 %, 1.56 %, ... of the
//   paper, where a stage is an epoch.
// Layout: the places (uint32, rising), then the values: 8 bytes for each.
// Reference: Lin, Han, Mao, Wang and Dally, "Deep gradient compression", ICLR 2018.
// Ours: the largest of a slice of the servers, over all its parameters (there by parameter, biases
//   and batch norm dense); found exactly, where the paper takes a threshold from a sample.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/sync/codec.h"

namespace kinet {
namespace {

constexpr int64_t kKnownBits = (1 << 24) - 1;  // of a push's number: those in the tags of puts

class TopKCodec : public PushCodec {
 public:
  static CodecType describe_type() {
    return {"TOPK", "the largest of what has gathered (DGC)", true};
  }
  size_t encoded_bytes(int64_t number) const override { return 8 * count(number); }
  int encode_passes() const override { return setup().momentum > 0 ? 9 : 7; }
  int decode_passes() const override { return 1; }

  void encode(int64_t number, std::span<const float> in, std::span<std::byte> out) override {
    gather(in);
    const size_t chosen = count(number);
    choose(chosen);
    auto* places = reinterpret_cast<uint32_t*>(out.data());
    auto* values = reinterpret_cast<float*>(places + chosen);
    for (size_t i = 0; i < chosen; ++i) {
      const uint32_t place = chosen_[i];
      places[i] = place;
      values[i] = gathered_[place];
      gathered_[place] = 0;
      if (!velocity_.empty()) velocity_[place] = 0;
    }
  }

  void decode(int64_t number, std::span<const std::byte> in, std::span<float> out) const override {
    std::fill(out.begin(), out.end(), 0.0F);
    const size_t chosen = count(number);
    const auto* places = reinterpret_cast<const uint32_t*>(in.data());
    const auto* values = reinterpret_cast<const float*>(places + chosen);
    for (size_t i = 0; i < chosen; ++i) {
      if (places[i] < out.size()) out[places[i]] = values[i];
    }
  }

 private:
  // After 2^24 pushes of a worker the warm-up comes once more: servers cannot tell.
  size_t count(int64_t number) const {
    double ratio = setup().ratio;
    if (setup().warmup > 0) {
      const int64_t stage = (number & kKnownBits) / setup().warmup;
      if (stage < 16) ratio = std::max(ratio, std::ldexp(1.0, static_cast<int>(-2 * (stage + 1))));
    }
    // Less a little: 0.01 of 300 are 3, whatever the product's last bit says.
    const double wanted = std::ceil(ratio * static_cast<double>(setup().floats) - 1e-6);
    return std::clamp<size_t>(static_cast<size_t>(std::max(1.0, wanted)), 1, setup().floats);
  }

  void gather(std::span<const float> g) {
    if (gathered_.empty()) gathered_.assign(g.size(), 0.0F);
    const float m = setup().momentum;
    if (m > 0 && velocity_.empty()) velocity_.assign(g.size(), 0.0F);
    for (size_t i = 0; i < g.size(); ++i) {
      float step = g[i];
      if (m > 0) {
        velocity_[i] = setup().nesterov ? m * (velocity_[i] + g[i]) : m * velocity_[i] + g[i];
        step = setup().nesterov ? velocity_[i] + g[i] : velocity_[i];
      }
      gathered_[i] += step;
    }
  }

  // The `count` largest, in rising order of their places; of equal ones the first.
  void choose(size_t count) {
    sizes_.resize(gathered_.size());
    for (size_t i = 0; i < sizes_.size(); ++i) sizes_[i] = std::abs(gathered_[i]);
    const auto last = sizes_.begin() + static_cast<int64_t>(count - 1);
    std::nth_element(sizes_.begin(), last, sizes_.end(), std::greater<>());
    const float least = *last;
    size_t equal = count - static_cast<size_t>(std::count_if(sizes_.begin(), last,
                                                             [&](float v) { return v > least; }));
    chosen_.clear();
    for (size_t i = 0; i < gathered_.size() && chosen_.size() < count; ++i) {
      const float size = std::abs(gathered_[i]);
      if (size < least || (size == least && equal == 0)) continue;
      if (size == least) --equal;
      chosen_.push_back(static_cast<uint32_t>(i));
    }
  }

  std::vector<float> velocity_, gathered_;  // u, z
  std::vector<float> sizes_;                // scratch
  std::vector<uint32_t> chosen_;
};

KINET_REGISTER_CODEC(TopKCodec);

}  // namespace
}  // namespace kinet
