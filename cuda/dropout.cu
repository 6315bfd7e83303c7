// Dropout on the device.
//
// Equation: y = x m, dx = dy m, m in {0, 1 / (1 - p)}; in TEST the identity.
// Shapes: top = bottom, seen as samples x values. May run in place.
// The mask is not kept: backward draws it again, which costs ten rounds of integer arithmetic for
// four values but saves 8 bytes of memory traffic for each. Both kernels are therefore one.
// Parent: layers/dropout.h
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "cuda/philox.h"
#include "layers/dropout.h"

namespace kinet {
namespace {

struct Mask {
  uint64_t seed, prefix;  // of the stream; see cuda/philox.h
  uint64_t first_sample;  // number in the run of the batch's first sample
  uint64_t threshold;     // words below it drop a value: p 2^32
  float kept;             // 1 / (1 - p)

  __device__ float4 group(int64_t sample, int64_t index) const {
    const uint64_t stream = stream_of(prefix, first_sample + static_cast<uint64_t>(sample), 0);
    const uint4 words = philox_block(seed, stream, static_cast<uint64_t>(index));
    return make_float4(words.x >= threshold ? kept : 0, words.y >= threshold ? kept : 0,
                       words.z >= threshold ? kept : 0, words.w >= threshold ? kept : 0);
  }
};

// y = x m. Grid: y over samples, x over groups of four values of one sample: one Philox block each.
// kWhole: `values` is a multiple of four and x, y are aligned.
template <bool kWhole>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(int64_t samples, int64_t values, Mask mask, const float* x, float* y) {
  const int64_t groups = (values + 3) / 4;
  for (int64_t n = blockIdx.y; n < samples; n += gridDim.y) {
    KINET_GRID_STRIDE(g, groups) {
      const float4 m = mask.group(n, g);
      const int64_t at = n * values + 4 * g, left = values - 4 * g;
      if (kWhole) {
        const float4 v = load_4(x + at);
        store_4(y + at, make_float4(v.x * m.x, v.y * m.y, v.z * m.z, v.w * m.w));
        continue;
      }
      y[at] = x[at] * m.x;
      if (left > 1) y[at + 1] = x[at + 1] * m.y;
      if (left > 2) y[at + 2] = x[at + 2] * m.z;
      if (left > 3) y[at + 3] = x[at + 3] * m.w;
    }
  }
}

class CudaDropout : public Dropout {
 public:
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) override {
    samples_ = bottoms[0].num();
    values_ = samples_ > 0 ? bottoms[0].count() / samples_ : 0;
    return bottoms;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    pass_ = context.pass;
    apply(context, bottoms[0]->device_data(), tops[0]->device_data());
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    apply(context, tops[0]->device_diff(), bottoms[0]->device_diff());
  }

 private:
  void apply(const Context& context, const float* x, float* y) const {
    const cudaStream_t stream = gpu_of(context).stream;
    if (samples_ * values_ == 0) return;
    if (!active(context)) {
      copy_values(stream, samples_ * values_, x, y);
      return;
    }
    const Mask mask{seed(), stream_prefix(RngPurpose::kDropout, hash_name(name())),
                    static_cast<uint64_t>(pass_ * samples_), static_cast<uint64_t>(ratio_ * 0x1p32),
                    static_cast<float>(1 / (1 - ratio_))};
    const dim3 grid(blocks_for((values_ + 3) / 4),
                    static_cast<unsigned>(std::min<int64_t>(samples_, kMostBlocks)));
    if (values_ % 4 == 0 && aligned_16(x) && aligned_16(y)) {
      KINET_LAUNCH((dropout_kernel<true>), grid, kThreads, 0, stream, samples_, values_, mask, x,
                   y);
    } else {
      KINET_LAUNCH((dropout_kernel<false>), grid, kThreads, 0, stream, samples_, values_, mask, x,
                   y);
    }
    KINET_CUDA_CHECK_LAUNCH();
  }

  int64_t pass_ = 0;  // of the last forward
};

KINET_REGISTER_CUDA_LAYER("Dropout", CudaDropout);

}  // namespace
}  // namespace kinet
