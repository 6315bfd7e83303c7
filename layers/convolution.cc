#include "layers/convolution.h"

#include <fmt/format.h>

#include "layers/gpu_math_field.h"

namespace kinet {

namespace {

const MessageType& convolution_fields() {
  static const MessageType type{
      "convolution_param",
      "Size and number of the filters of a convolution.",
      {
          uint_field("num_output", "", "Number of filters, that is of output channels; required."),
          bool_field("bias_term", "true", "Whether a bias is added to each output channel."),
          repeated(uint_field("pad", "0",
                              "Zeros added on each side of the image, in pixels: one value, or "
                              "vertical then horizontal.")),
          repeated(uint_field("kernel_size", "",
                              "Size of the filters, in pixels: one value, or height then width; "
                              "required unless kernel_h and kernel_w are given.")),
          repeated(uint_field("stride", "1",
                              "Step of the filters, in pixels: one value, or vertical then "
                              "horizontal.")),
          repeated(uint_field("dilation", "1",
                              "Distance between the taps of a filter, in pixels: one value, or "
                              "vertical then horizontal.")),
          uint_field("pad_h", "0", "Vertical padding, in pixels, instead of pad."),
          uint_field("pad_w", "0", "Horizontal padding, in pixels, instead of pad."),
          uint_field("kernel_h", "", "Height of the filters, in pixels, instead of kernel_size."),
          uint_field("kernel_w", "", "Width of the filters, in pixels, instead of kernel_size."),
          uint_field("stride_h", "", "Vertical step, in pixels, instead of stride."),
          uint_field("stride_w", "", "Horizontal step, in pixels, instead of stride."),
          uint_field("group", "1",
                     "Number of groups: input and output channels are divided into this many "
                     "parts, and a filter sees only the inputs of its own part."),
          message_field("weight_filler", filler_fields(), "How the weights start."),
          message_field("bias_filler", filler_fields(), "How the biases start."),
          int_field("axis", "1",
                    "Axis of the channels; this version convolves images, N x C x H x W, where "
                    "it is 1."),
          enum_field("engine", {{"DEFAULT", 0}, {"CAFFE", 1}, {"CUDNN", 2}}, "DEFAULT",
                     "How a GPU computes it: CAFFE by im2col and cuBLAS, CUDNN by products that "
                     "gather their columns (kinet's own kernels), DEFAULT whichever should be "
                     "faster (docs/cuda_convolution.md). The CPU has one way."),
          gpu_math_field(),
          no_effect(bool_field("force_nd_im2col", "false", "Caffe's choice of algorithm.")),
      }};
  return type;
}

}  // namespace

LayerType ConvolutionLayer::describe() {
  LayerType type;
  type.type = "Convolution";
  type.help = "Slides learned filters over images.";
  type.fields = {
      message_field("convolution_param", convolution_fields(), "Size and number of the filters.")};
  type.max_bottoms = type.max_tops = -1;
  type.same_count = true;
  return type;
}

// Both axes of each field, from `name` (one or two values) or `name`_h and `name`_w.
void ConvolutionLayer::read_window() {
  const Params p = params("convolution_param");
  const auto read = [&](const std::string& both, const std::string& stem, int64_t fallback,
                        int64_t least, int64_t ConvAxis::*member) {
    const bool has_axes = !stem.empty() && (p.has(stem + "_h") || p.has(stem + "_w"));
    std::vector<int64_t> values = p.has(both) ? p.get_ints(both) : std::vector<int64_t>{};
    if (has_axes && !values.empty()) {
      fail_here(fmt::format("give either {} or {}_h and {}_w, not both", both, stem, stem));
    }
    if (values.size() > 2) {
      fail_here(fmt::format("{} has {} values; an image has 2 axes", both, values.size()));
    }
    if (has_axes) {
      const auto axis = [&](const std::string& name) {
        return p.has(name) ? p.get_int(name) : fallback;
      };
      values = {axis(stem + "_h"), axis(stem + "_w")};
    }
    if (values.empty()) values = {fallback};
    window_.h.*member = values.front();
    window_.w.*member = values.back();
    if (window_.h.*member < least || window_.w.*member < least) {
      fail_here(fmt::format("{} must be {} or more", both, least));
    }
  };
  if (!p.has("kernel_size") && !(p.has("kernel_h") && p.has("kernel_w"))) {
    fail_here("needs kernel_size, or kernel_h and kernel_w");
  }
  read("kernel_size", "kernel", 0, 1, &ConvAxis::kernel);
  read("stride", "stride", 1, 1, &ConvAxis::stride);
  read("pad", "pad", 0, 0, &ConvAxis::pad);
  read("dilation", "", 1, 1, &ConvAxis::dilation);
}

void ConvolutionLayer::check_bottom(const Shape& shape) const {
  if (shape.axes() != 4) {
    fail_here(fmt::format("convolves images, N x C x H x W; its bottom is {}", shape.str()));
  }
  if (!blobs().empty() && shape.channels() != blobs()[0].shape()[1] * groups_) {
    fail_here(fmt::format("weights of shape {} in {} groups do not fit a bottom of shape {}",
                          blobs()[0].shape().str(), groups_, shape.str()));
  }
}

void ConvolutionLayer::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("convolution_param");
  const Shape& bottom = bottoms.at(0);
  check_bottom(bottom);
  if (bottom.canonical_axis(p.get_int32("axis"), "axis") != 1) {
    fail_here("axis must be 1: this version convolves images, N x C x H x W");
  }
  if (!p.has("num_output") || p.get_int("num_output") < 1) {
    fail_here("needs num_output, 1 or more");
  }
  outputs_ = p.get_int("num_output");
  groups_ = p.get_int("group");
  bias_term_ = p.get_bool("bias_term");
  read_window();
  if (groups_ < 1 || bottom.channels() % groups_ != 0 || outputs_ % groups_ != 0) {
    fail_here(
        fmt::format("group {} must divide both num_output {} and the {} channels of its "
                    "bottom ({})",
                    groups_, outputs_, bottom.channels(), bottom.str()));
  }
  declare_parameter({outputs_, bottom.channels() / groups_, window_.h.kernel, window_.w.kernel},
                    read_filler(p.message("weight_filler")));
  if (bias_term_) declare_parameter({outputs_}, read_filler(p.message("bias_filler")));
}

// Before anything is computed with them: count() throws where one of these is beyond the limit.
void ConvolutionLayer::check_sizes(const Shape& bottom, const Shape& top) const {
  top.count();
  if (top.height() * top.width() > kMaxPixels) {
    fail_here(fmt::format("at most {} outputs a channel are possible, but there would be {}x{}",
                          kMaxPixels, top.height(), top.width()));
  }
  const Shape columns{bottom.channels() / groups_, window_.h.kernel, window_.w.kernel, top.height(),
                      top.width()};
  try {
    columns.count();
  } catch (const Error&) {
    fail_here(
        fmt::format("its windows hold too many values: {} channels x {}x{} taps x {}x{} "
                    "outputs are more than 2^40",
                    columns[0], columns[1], columns[2], columns[3], columns[4]));
  }
}

std::vector<Shape> ConvolutionLayer::reshape_geometry(const std::vector<Shape>& bottoms) {
  const Shape& shape = bottoms.at(0);
  for (const Shape& other : bottoms) {
    check_bottom(other);
    if (other != shape) {
      fail_here(fmt::format("its bottoms must have one shape, but are {} and {}", shape.str(),
                            other.str()));
    }
  }
  window_.h.size = shape.height();
  window_.w.size = shape.width();
  const ConvAxis &h = window_.h, &w = window_.w;
  if (h.size + 2 * h.pad < h.extent() || w.size + 2 * w.pad < w.extent()) {
    fail_here(
        fmt::format("a filter that covers {}x{} pixels does not fit a bottom of shape {} "
                    "with padding {}x{}",
                    h.extent(), w.extent(), shape.str(), h.pad, w.pad));
  }
  const Shape top{shape.num(), outputs_, h.outputs(), w.outputs()};
  check_sizes(shape, top);
  geometry_ = {window_, shape.num(), shape.channels(), outputs_, groups_};
  bottoms_ = bottoms.size();
  return std::vector<Shape>(bottoms_, top);
}

std::vector<Shape> ConvolutionLayer::reshape(const std::vector<Shape>& bottoms,
                                             WorkspacePlan& plan) {
  std::vector<Shape> tops = reshape_geometry(bottoms);
  plan_ = ConvPlan(geometry_, plan.threads());
  plan.temporary(workspace_, plan_.workspace_floats());
  return tops;
}

void ConvolutionLayer::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* weights = blobs()[0].data();
  const float* bias = bias_term_ ? blobs()[1].data() : nullptr;
  for (size_t i = 0; i < bottoms.size(); ++i) {
    plan_.forward(context.threads, bottoms[i]->data(), weights, bias, tops[i]->data(),
                  workspace_.data());
  }
}

void ConvolutionLayer::backward(const Context& context, Tensors tops, Tensors bottoms,
                                const BackwardMask& mask) {
  Tensor& weights = blobs()[0];
  for (size_t i = 0; i < bottoms.size(); ++i) {
    const float* dy = tops[i]->diff();
    if (bias_term_ && mask.blob[1]) {
      plan_.backward_bias(context.threads, dy, blobs()[1].diff());
    }
    if (mask.blob[0]) {
      plan_.backward_weights(context.threads, bottoms[i]->data(), dy, weights.diff(),
                             workspace_.data());
    }
    if (mask.bottom[i]) {
      plan_.backward_data(context.threads, dy, weights.data(), bottoms[i]->diff(),
                          workspace_.data());
    }
  }
}

double ConvolutionLayer::macs() const { return static_cast<double>(bottoms_) * geometry_.macs(); }

std::string ConvolutionLayer::summary() const {
  const ConvAxis &h = window_.h, &w = window_.w;
  std::string text = fmt::format("{}x{}", h.kernel, w.kernel);
  if (h.stride > 1 || w.stride > 1) text += fmt::format(", stride {}x{}", h.stride, w.stride);
  if (h.pad > 0 || w.pad > 0) text += fmt::format(", pad {}x{}", h.pad, w.pad);
  if (h.dilation > 1 || w.dilation > 1) {
    text += fmt::format(", dilation {}x{}", h.dilation, w.dilation);
  }
  if (groups_ > 1) text += fmt::format(", {} groups", groups_);
  return text;
}

KINET_REGISTER_LAYER(ConvolutionLayer);

}  // namespace kinet
