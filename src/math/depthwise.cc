#include "src/math/depthwise.h"

#include <algorithm>

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

namespace {

// The piece of an output row that one tap touches, and the image row under it.
struct Span {
  int64_t outputs, out_at, in_at;  // count, offset in the output plane, offset in the input plane
};

// Calls body(tap number, span) for every tap and every output row that meets the image.
template <class Body>
void for_each_span(const Window2d& window, const Body& body) {
  const ConvAxis &h = window.h, &w = window.w;
  const int64_t out_h = h.outputs(), out_w = w.outputs();
  for (int64_t r = 0; r < h.kernel; ++r) {
    for (int64_t s = 0; s < w.kernel; ++s) {
      const int64_t shift = s * w.dilation - w.pad;  // output j reads column j * stride + shift
      const int64_t begin = shift < 0 ? (-shift + w.stride - 1) / w.stride : 0;
      const int64_t room = w.size - 1 - shift;
      const int64_t end = room < 0 ? 0 : std::min(out_w, room / w.stride + 1);
      for (int64_t i = 0; i < out_h && begin < end; ++i) {
        const int64_t y = i * h.stride - h.pad + r * h.dilation;
        if (y < 0 || y >= h.size) continue;
        body(r * w.kernel + s,
             Span{end - begin, i * out_w + begin, y * w.size + begin * w.stride + shift});
      }
    }
  }
}

}  // namespace

void depthwise_forward(const ConvGeometry& g, int threads, const float* x, const float* weights,
                       const float* bias, float* y) {
  const int64_t planes = g.images * g.outputs, multiplier = g.group_outputs();
  const int64_t stride = g.window.w.stride, taps = g.window.taps();
  parallel_for(threads, planes, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t o = p % g.outputs;
      const float* in = x + p / multiplier * g.window.image();
      const float* w = weights + o * taps;
      float* out = y + p * g.window.outputs();
      std::fill_n(out, g.window.outputs(), bias != nullptr ? bias[o] : 0.0f);
      for_each_span(g.window, [&](int64_t tap, const Span& span) {
        if (stride == 1)
          return vec().axpy(span.outputs, w[tap], in + span.in_at, out + span.out_at);
        for (int64_t j = 0; j < span.outputs; ++j) {
          out[span.out_at + j] += w[tap] * in[span.in_at + j * stride];
        }
      });
    }
  });
}

void depthwise_backward_weights(const ConvGeometry& g, int threads, const float* x, const float* dy,
                                float* dw) {
  const int64_t multiplier = g.group_outputs(), stride = g.window.w.stride;
  parallel_for(threads, g.outputs, [&](int64_t begin, int64_t end, int) {
    for (int64_t o = begin; o < end; ++o) {
      for (int64_t n = 0; n < g.images; ++n) {
        const float* in = x + (n * g.channels + o / multiplier) * g.window.image();
        const float* out = dy + (n * g.outputs + o) * g.window.outputs();
        for_each_span(g.window, [&](int64_t tap, const Span& span) {
          double sum = 0;
          if (stride == 1) {
            sum = vec().dot(span.outputs, in + span.in_at, out + span.out_at);
          } else {
            for (int64_t j = 0; j < span.outputs; ++j) {
              sum += static_cast<double>(in[span.in_at + j * stride]) * out[span.out_at + j];
            }
          }
          dw[o * g.window.taps() + tap] += static_cast<float>(sum);
        });
      }
    }
  });
}

void depthwise_backward_data(const ConvGeometry& g, int threads, const float* dy,
                             const float* weights, float* dx) {
  const int64_t multiplier = g.group_outputs(), stride = g.window.w.stride;
  parallel_for(threads, g.images * g.channels, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      float* in = dx + p * g.window.image();
      std::fill_n(in, g.window.image(), 0.0f);
      for (int64_t m = 0; m < multiplier; ++m) {
        const float* out = dy + (p * multiplier + m) * g.window.outputs();
        const float* w = weights + (p % g.channels * multiplier + m) * g.window.taps();
        for_each_span(g.window, [&](int64_t tap, const Span& span) {
          if (stride == 1) {
            return vec().axpy(span.outputs, w[tap], out + span.out_at, in + span.in_at);
          }
          for (int64_t j = 0; j < span.outputs; ++j) {
            in[span.in_at + j * stride] += w[tap] * out[span.out_at + j];
          }
        });
      }
    }
  });
}

}  // namespace kinet
