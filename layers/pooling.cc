#include "layers/pooling.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "layers/engine_field.h"
#include "src/base/memory.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

namespace {

const MessageType& pooling_fields() {
  static const MessageType type{
      "pooling_param",
      "Kind and size of the windows.",
      {
          enum_field("pool", {{"MAX", 0}, {"AVE", 1}, {"STOCHASTIC", 2}}, "MAX",
                     "What becomes of a window: its largest value or its mean (STOCHASTIC is "
                     "refused)."),
          uint_field("pad", "0", "Width of the border around the image, in pixels."),
          uint_field("pad_h", "0", "Height of the border, in pixels, instead of pad."),
          uint_field("pad_w", "0", "Width of the border, in pixels, instead of pad."),
          uint_field("kernel_size", "",
                     "Height and width of the windows, in pixels; required unless kernel_h and "
                     "kernel_w or global_pooling are given."),
          uint_field("kernel_h", "", "Height of the windows, in pixels, instead of kernel_size."),
          uint_field("kernel_w", "", "Width of the windows, in pixels, instead of kernel_size."),
          uint_field("stride", "1", "Step from window to window, in pixels."),
          uint_field("stride_h", "", "Vertical step, in pixels, instead of stride."),
          uint_field("stride_w", "", "Horizontal step, in pixels, instead of stride."),
          bool_field("global_pooling", "false", "One window that covers the whole image."),
          enum_field("round_mode", {{"CEIL", 0}, {"FLOOR", 1}}, "CEIL",
                     "Whether a last window that only partly fits is made (CEIL) or not."),
          bool_field("exclude_padding", "false",
                     "AVE: divide by the pixels inside the image only. Not a field of Caffe, "
                     "which counts padding."),
          engine_field(),
      }};
  return type;
}

// MAX: planes whose output rows are shorter than this go window by window over a table of taps;
// the table is the same for all planes and stays in the first-level cache.
constexpr int64_t kShortRow = 32;
constexpr int64_t kTableEntries = 8192;

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

}  // namespace

LayerType PoolingLayer::describe() {
  LayerType type;
  type.type = "Pooling";
  type.help = "Takes the largest value or the mean of windows of each channel.";
  type.fields = {message_field("pooling_param", pooling_fields(), "Kind and size of the windows.")};
  type.max_tops = 2;
  return type;
}

void PoolingLayer::read_axis(const std::string& suffix, ConvAxis* axis) const {
  const Params p = params("pooling_param");
  const auto read = [&](const std::string& both, const std::string& stem, int64_t fallback) {
    const bool by_axis = p.has(stem + "_h") || p.has(stem + "_w");
    if (by_axis && p.has(both)) {
      fail_here(fmt::format("give either {} or {}_h and {}_w, not both", both, stem, stem));
    }
    const std::string field = by_axis ? stem + suffix : both;
    return p.has(field) ? p.get_int(field) : fallback;
  };
  axis->kernel = read("kernel_size", "kernel", 0);
  axis->stride = read("stride", "stride", 1);
  axis->pad = read("pad", "pad", 0);
  if (global_) {
    if (axis->kernel != 0) fail_here("global_pooling sets the kernel size; do not give one");
    if (axis->stride != 1 || axis->pad != 0) fail_here("global_pooling needs pad 0 and stride 1");
    return;
  }
  if (axis->kernel < 1) fail_here("needs kernel_size, or kernel_h and kernel_w");
  if (axis->stride < 1) fail_here("stride must be 1 or more");
  if (axis->pad >= axis->kernel) {
    fail_here(
        fmt::format("pad {} must be less than the kernel size {}, or a window could lie "
                    "wholly in the padding",
                    axis->pad, axis->kernel));
  }
}

void PoolingLayer::set_up(const std::vector<Shape>&) {
  const Params p = params("pooling_param");
  const std::string pool = p.get_enum("pool");
  if (pool == "STOCHASTIC") {
    fail_at(p.where("pool"), fmt::format("layer '{}' (Pooling): pool STOCHASTIC is not "
                                         "implemented; use MAX or AVE",
                                         name()));
  }
  method_ = pool == "MAX" ? Method::kMax : Method::kAve;
  global_ = p.get_bool("global_pooling");
  floor_ = p.get_enum("round_mode") == "FLOOR";
  exclude_padding_ = p.get_bool("exclude_padding");
  read_axis("_h", &window_.h);
  read_axis("_w", &window_.w);
  if (top_count() > 1 && method_ != Method::kMax) {
    fail_here("a second top, the place of the maximum, needs pool MAX");
  }
}

int64_t PoolingLayer::outputs(const ConvAxis& axis, const Shape& bottom) const {
  const int64_t room = axis.size + 2 * axis.pad - axis.kernel;
  int64_t count = (floor_ ? -ceil_div(-room, axis.stride) : ceil_div(room, axis.stride)) + 1;
  if (count > 1 && (count - 1) * axis.stride >= axis.size + axis.pad) --count;
  if (count < 1 || axis.size < 1) {
    fail_here(fmt::format(
        "windows of {}x{} pixels do not fit a bottom of shape {} with padding "
        "{}x{}",
        window_.h.kernel, window_.w.kernel, bottom.str(), window_.h.pad, window_.w.pad));
  }
  return count;
}

std::vector<Shape> PoolingLayer::reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) {
  const Shape& shape = bottoms.at(0);
  if (shape.axes() != 4) {
    fail_here(fmt::format("pools images, N x C x H x W; its bottom is {}", shape.str()));
  }
  window_.h.size = shape.height();
  window_.w.size = shape.width();
  if (global_) {
    window_.h.kernel = window_.h.size;
    window_.w.kernel = window_.w.size;
  }
  out_h_ = outputs(window_.h, shape);
  out_w_ = outputs(window_.w, shape);
  planes_ = shape.num() * shape.channels();
  const Shape top{shape.num(), shape.channels(), out_h_, out_w_};
  check_memory(static_cast<uint64_t>(top.count()), fmt::format("a top of shape {}", top.str()));
  if (method_ == Method::kMax && window_.image() > std::numeric_limits<int32_t>::max()) {
    fail_here(fmt::format("pool MAX keeps places in 32 bits; images of {}x{} pixels are too large",
                          shape.height(), shape.width()));
  }
  make_runs();
  make_table();
  planned_threads_ = plan.threads();
  if (method_ == Method::kMax) {
    plan.saved(index_, static_cast<size_t>(top.count()));
  } else {
    plan.temporary(rows_, static_cast<size_t>(planned_threads_ * window_.w.size));
  }
  return std::vector<Shape>(static_cast<size_t>(top_count()), top);
}

// Windows of one output row: those clipped at a side of the image alone, all whole ones as one run.
void PoolingLayer::make_runs() {
  const ConvAxis& w = window_.w;
  runs_.clear();
  for (int64_t j = 0; j < out_w_; ++j) {
    const int64_t start = j * w.stride - w.pad;
    const int64_t first = std::max<int64_t>(start, 0);
    const int64_t end = std::min(start + w.kernel, w.size);
    const int64_t padded_end = std::min(start + w.kernel, w.size + w.pad);
    const bool whole = end - first == w.kernel;
    if (whole && !runs_.empty() && runs_.back().cols == w.kernel) {
      runs_.back().end = j + 1;
    } else {
      runs_.push_back(
          {j, j + 1, first, end - first, exclude_padding_ ? end - first : padded_end - start});
    }
  }
}

// A tap outside the image is replaced by the nearest one inside, which is in the window too.
void PoolingLayer::make_table() {
  const ConvAxis &h = window_.h, &w = window_.w;
  table_.clear();
  const bool small = out_w_ < kShortRow && window_.taps() <= kTableEntries &&
                     window_.taps() * out_h_ * out_w_ <= kTableEntries;
  if (method_ != Method::kMax || !small) return;
  for (int64_t r = 0; r < h.kernel; ++r) {
    for (int64_t c = 0; c < w.kernel; ++c) {
      for (int64_t i = 0; i < out_h_; ++i) {
        const int64_t y = std::clamp<int64_t>(i * h.stride - h.pad + r, 0, h.size - 1);
        for (int64_t j = 0; j < out_w_; ++j) {
          const int64_t x = std::clamp<int64_t>(j * w.stride - w.pad + c, 0, w.size - 1);
          table_.push_back(static_cast<int32_t>(y * w.size + x));
        }
      }
    }
  }
}

PoolingLayer::Rows PoolingLayer::rows_of(int64_t i) const {
  const ConvAxis& h = window_.h;
  const int64_t start = i * h.stride - h.pad, first = std::max<int64_t>(start, 0);
  const int64_t rows = std::min(start + h.kernel, h.size) - first;
  const int64_t padded = std::min(start + h.kernel, h.size + h.pad) - start;
  return {first, rows, exclude_padding_ ? rows : padded};
}

float PoolingLayer::factor(const Rows& rows, const Run& run) const {
  return 1.0f / static_cast<float>(rows.divisor_rows * run.divisor_cols);
}

// ---- one plane ----------------------------------------------------------------------------------

void PoolingLayer::max_plane(const float* x, float* y, int32_t* index) const {
  if (!table_.empty()) {
    vec().max_pool_table(out_h_ * out_w_, static_cast<int>(window_.taps()), table_.data(), x, y,
                         index);
    return;
  }
  const int64_t width = window_.w.size;
  for (int64_t i = 0; i < out_h_; ++i) {
    const Rows rows = rows_of(i);
    for (const Run& run : runs_) {
      const int64_t at = rows.first * width + run.first, out = i * out_w_ + run.begin;
      vec().max_pool_row(
          {run.end - run.begin, static_cast<int>(rows.rows), static_cast<int>(run.cols),
           static_cast<int>(window_.w.stride), x + at, width},
          static_cast<int32_t>(at), y + out, index + out);
    }
  }
}

// A window is summed down its columns first: whole rows at once, for all windows of an output row.
void PoolingLayer::ave_plane(const float* x, float* y, float* row) const {
  const int64_t width = window_.w.size;
  for (int64_t i = 0; i < out_h_; ++i) {
    const Rows rows = rows_of(i);
    std::copy_n(x + rows.first * width, width, row);
    if (rows.rows > 1)
      vec().add_rows(rows.rows - 1, width, x + (rows.first + 1) * width, width, row, 0);
    for (const Run& run : runs_) {
      vec().ave_pool_row({run.end - run.begin, 1, static_cast<int>(run.cols),
                          static_cast<int>(window_.w.stride), row + run.first, width},
                         factor(rows, run), y + i * out_w_ + run.begin);
    }
  }
}

void PoolingLayer::ave_plane_backward(const float* dy, float* dx, float* row) const {
  const int64_t width = window_.w.size;
  std::fill_n(dx, window_.image(), 0.0f);
  for (int64_t i = 0; i < out_h_; ++i) {
    const Rows rows = rows_of(i);
    std::fill_n(row, width, 0.0f);
    for (const Run& run : runs_) {
      const float share = factor(rows, run);
      for (int64_t j = run.begin; j < run.end; ++j) {
        const float add = share * dy[i * out_w_ + j];
        float* out = row + run.first + (j - run.begin) * window_.w.stride;
        for (int64_t c = 0; c < run.cols; ++c) out[c] += add;
      }
    }
    vec().add_rows(rows.rows, width, row, 0, dx + rows.first * width, width);
  }
}

// ---- all planes ---------------------------------------------------------------------------------

void PoolingLayer::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* x = bottoms[0]->data();
  float* y = tops[0]->data();
  float* places = tops.size() > 1 ? tops[1]->data() : nullptr;
  const int64_t image = window_.image(), pixels = out_h_ * out_w_;
  const int threads = std::min(context.threads, planned_threads_);
  parallel_for(threads, planes_, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t p = begin; p < end; ++p) {
      if (method_ == Method::kAve) {
        ave_plane(x + p * image, y + p * pixels, rows_.data() + thread * window_.w.size);
        continue;
      }
      int32_t* at = index() + p * pixels;
      max_plane(x + p * image, y + p * pixels, at);
      if (places != nullptr) std::copy_n(at, pixels, places + p * pixels);
    }
  });
}

void PoolingLayer::backward(const Context& context, Tensors tops, Tensors bottoms,
                            const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float* dy = tops[0]->diff();
  float* dx = bottoms[0]->diff();
  const int64_t image = window_.image(), pixels = out_h_ * out_w_;
  const int threads = std::min(context.threads, planned_threads_);
  parallel_for(threads, planes_, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t p = begin; p < end; ++p) {
      if (method_ == Method::kAve) {
        ave_plane_backward(dy + p * pixels, dx + p * image, rows_.data() + thread * window_.w.size);
        continue;
      }
      const int32_t* at = index() + p * pixels;
      std::fill_n(dx + p * image, image, 0.0f);
      for (int64_t o = 0; o < pixels; ++o) dx[p * image + at[o]] += dy[p * pixels + o];
    }
  });
}

std::string PoolingLayer::summary() const {
  if (global_) return method_ == Method::kMax ? "MAX, global" : "AVE, global";
  return fmt::format("{} {}x{}, stride {}x{}", method_ == Method::kMax ? "MAX" : "AVE",
                     window_.h.kernel, window_.w.kernel, window_.h.stride, window_.w.stride);
}

KINET_REGISTER_LAYER(PoolingLayer);

}  // namespace kinet
