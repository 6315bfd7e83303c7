#include "layers/inner_product.h"

#include <fmt/format.h>

#include <limits>

#include "layers/gpu_math_field.h"
#include "src/base/parallel.h"
#include "src/math/blas.h"
#include "src/math/vec.h"

namespace kinet {

namespace {

const MessageType& inner_product_fields() {
  static const MessageType type{
      "inner_product_param",
      "Size of a fully connected layer.",
      {
          uint_field("num_output", "", "Number of outputs; required."),
          bool_field("bias_term", "true", "Whether a bias is added to each output."),
          message_field("weight_filler", filler_fields(), "How the weights start."),
          message_field("bias_filler", filler_fields(), "How the biases start."),
          int_field("axis", "1",
                    "First axis of the inputs: it and all that follow are flattened; axes before "
                    "it stay. May count from the end (-1)."),
          bool_field("transpose", "false",
                     "Whether the weights are stored with one row for each input instead of one "
                     "for each output."),
          gpu_math_field(),
      }};
  return type;
}

constexpr int64_t kColumnGrain = 64;  // outputs: a piece of the bias gradient worth a thread

}  // namespace

LayerType InnerProductLayer::describe() {
  LayerType type;
  type.type = "InnerProduct";
  type.help = "A fully connected layer: every output is a weighted sum of all inputs.";
  type.fields = {message_field("inner_product_param", inner_product_fields(),
                               "Size of a fully connected layer.")};
  return type;
}

void InnerProductLayer::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("inner_product_param");
  if (!p.has("num_output") || p.get_int("num_output") < 1) {
    fail_here("needs num_output, 1 or more");
  }
  outputs_ = p.get_int("num_output");
  bias_term_ = p.get_bool("bias_term");
  transpose_ = p.get_bool("transpose");
  axis_ =
      bottoms.at(0).canonical_axis(p.get_int32("axis"), fmt::format("axis of layer '{}'", name()));
  inputs_ = bottoms[0].count(axis_);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // sizes of a matrix product
  if (inputs_ > kMost || outputs_ > kMost) {
    fail_here(fmt::format("at most {} inputs and outputs are possible, but there are {} and {}",
                          kMost, inputs_, outputs_));
  }
  declare_parameter(transpose_ ? Shape{inputs_, outputs_} : Shape{outputs_, inputs_},
                    read_filler(p.message("weight_filler")));
  if (bias_term_) declare_parameter({outputs_}, read_filler(p.message("bias_filler")));
}

std::vector<Shape> InnerProductLayer::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const Shape& shape = bottoms.at(0);
  if (shape.axes() <= axis_ || shape.count(axis_) != inputs_) {
    fail_here(
        fmt::format("weights for {} inputs do not fit a bottom of shape {}", inputs_, shape.str()));
  }
  rows_ = shape.count(0, axis_);
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + axis_);
  dims.push_back(outputs_);
  return {Shape(std::move(dims))};
}

void InnerProductLayer::forward(const Context& context, Tensors bottoms, Tensors tops) {
  float* y = tops[0]->data();
  gemm_parallel(context.threads, Trans::kNo, transpose_ ? Trans::kNo : Trans::kYes, rows_, outputs_,
                inputs_, 1, bottoms[0]->data(), blobs()[0].data(), 0, y);
  if (!bias_term_) return;
  const float* bias = blobs()[1].data();
  for (int64_t i = 0; i < rows_; ++i) {
    vec().add(outputs_, y + i * outputs_, bias, y + i * outputs_);
  }
}

void InnerProductLayer::backward(const Context& context, Tensors tops, Tensors bottoms,
                                 const BackwardMask& mask) {
  const float* dy = tops[0]->diff();
  const float* x = bottoms[0]->data();
  Tensor& weights = blobs()[0];
  if (bias_term_ && mask.blob[1]) {
    float* db = blobs()[1].diff();
    parallel_elements(
        context.threads, outputs_,
        [&](int64_t begin, int64_t end, int) {
          for (int64_t i = 0; i < rows_; ++i) {
            vec().add(end - begin, db + begin, dy + i * outputs_ + begin, db + begin);
          }
        },
        kColumnGrain);
  }
  if (mask.blob[0] && transpose_) {
    gemm_parallel(context.threads, Trans::kYes, Trans::kNo, inputs_, outputs_, rows_, 1, x, dy, 1,
                  weights.diff());
  } else if (mask.blob[0]) {
    gemm_parallel(context.threads, Trans::kYes, Trans::kNo, outputs_, inputs_, rows_, 1, dy, x, 1,
                  weights.diff());
  }
  if (mask.bottom[0]) {
    gemm_parallel(context.threads, Trans::kNo, transpose_ ? Trans::kYes : Trans::kNo, rows_,
                  inputs_, outputs_, 1, dy, weights.data(), 0, bottoms[0]->diff());
  }
}

KINET_REGISTER_LAYER(InnerProductLayer);

}  // namespace kinet
